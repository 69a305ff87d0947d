// SPDX-License-Identifier: Apache-2.0

// Package vmnetsim builds the simulator of vmnet.framework in csrc, and flips its switches through the control file.
package vmnetsim

import (
	"context"
	"embed"
	"fmt"
	"os"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

//go:embed csrc/*.c csrc/*.h
var csrc embed.FS

// A Flavour is the macOS whose symbols the library exports.
type Flavour int

// The flavours.
const (
	Full      Flavour = iota // macOS 26
	NoMacOS26                // without vmnet_network_*: macOS 15
	NoMacOS15                // and without the keys for packets per call and virtio headers: macOS 11 to 14
)

var defines = map[Flavour][]string{Full: nil, NoMacOS26: {"-DNO_MACOS26"}, NoMacOS15: {"-DNO_MACOS15"}}

// SanitizeEnv is a variable that, set to anything, has Build make a library with gcc's address and undefined behaviour sanitizers. The program
// that loads it must have been started with the sanitizer's own library preloaded: see test.asan in the Makefile.
const SanitizeEnv = "VMNETSIM_SANITIZE"

// Library builds the simulator unless it is there already, and returns the path of the shared object. Without gcc it
// skips the test, except in CI, where it fails.
func Library(tb testing.TB, f Flavour) string {
	tb.Helper()
	p, err := Build(tb.Context(), f)
	return cbuild.Must(tb, p, err)
}

// Build builds the simulator unless it is there already, and returns the path of the shared object, in whose directory
// abi.h lies as well. It may run in several processes at the same time.
func Build(ctx context.Context, f Flavour) (string, error) {
	flags := append([]string{"-O2", "-fPIC", "-shared", "-Wl,-z,defs", "-Wl,-z,nodelete"}, defines[f]...)
	if os.Getenv(SanitizeEnv) != "" {
		flags = append(flags, cbuild.Sanitizers...)
	}
	return compile(ctx, "libvmnetsim.so", flags, nil)
}

// compile makes one binary of all sources of the simulator and more ones, given by path.
func compile(ctx context.Context, name string, flags, more []string) (string, error) {
	files, err := cbuild.Sources(csrc, more...)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return cbuild.Program{Dir: "vmnetsim", Name: name, Flags: flags, Files: files}.Build(ctx)
}
