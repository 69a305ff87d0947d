// SPDX-License-Identifier: Apache-2.0

// Package vmnetsim builds the simulator of vmnet.framework in csrc, and flips its switches through the control file.
package vmnetsim

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
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

// cflags are for everything that is built here.
var cflags = []string{"-std=c11", "-D_GNU_SOURCE", "-g", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"}

// SanitizeEnv is a variable that, set to anything, has Build make a library with gcc's address and undefined behaviour sanitizers. The program
// that loads it must have been started with the sanitizer's own library preloaded: see test.asan in the Makefile.
const SanitizeEnv = "VMNETSIM_SANITIZE"

// ErrNoCompiler is wrapped by errors about a missing gcc.
var ErrNoCompiler = errors.New("gcc not found")

// Library builds the simulator unless it is there already, and returns the path of the shared object. Without gcc it
// skips the test, except in CI, where it fails.
func Library(tb testing.TB, f Flavour) string {
	tb.Helper()
	p, err := Build(tb.Context(), f)
	if errors.Is(err, ErrNoCompiler) {
		if os.Getenv("CI") != "" {
			tb.Fatal("gcc is required in CI: apt-get install gcc libc6-dev")
		}
		tb.Skip("needs gcc for the vmnet simulator, try: apt-get install gcc libc6-dev")
	}
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Build builds the simulator unless it is there already, and returns the path of the shared object, in whose directory
// abi.h lies as well. It may run in several processes at the same time.
func Build(ctx context.Context, f Flavour) (string, error) {
	flags := append([]string{"-O2", "-fPIC", "-shared", "-Wl,-z,defs", "-Wl,-z,nodelete"}, defines[f]...)
	if os.Getenv(SanitizeEnv) != "" {
		flags = append(flags, "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
	}
	return compile(ctx, "libvmnetsim.so", flags, nil)
}

// compile makes one binary of all sources of the simulator and more ones, given by path, below build/vmnetsim in the
// repository, in a directory that is named by what goes into it.
func compile(ctx context.Context, name string, flags, more []string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, ErrNoCompiler)
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	flags = slices.Concat(cflags, flags)
	files, err := sources(more)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	dir := filepath.Join(root, "build", "vmnetsim", digest(name, flags, files))
	out := filepath.Join(dir, name)
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(out); err == nil {
		return out, nil
	}
	args := append(slices.Clone(flags), "-o", out+".new")
	for _, f := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, f), files[f], 0o644); err != nil {
			return "", err
		}
		if strings.HasSuffix(f, ".c") {
			args = append(args, filepath.Join(dir, f))
		}
	}
	if b, err := exec.CommandContext(ctx, gcc, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, b)
	}
	return out, os.Rename(out+".new", out)
}

// sources are the simulator's files and more ones, by base name.
func sources(more []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(csrc, "csrc", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path.Base(p)], err = csrc.ReadFile(p)
		return err
	})
	for _, p := range more {
		b, readErr := os.ReadFile(p)
		files[filepath.Base(p)] = b
		err = errors.Join(err, readErr)
	}
	return files, err
}

// digest names what goes into a binary.
func digest(name string, flags []string, files map[string][]byte) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%q\n", name, flags)
	for _, f := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(h, "%s %d\n%s", f, len(files[f]), files[f])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// repository is the directory with go.mod above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("build the vmnet simulator: no go.mod above %s", dir)
		}
	}
}

// lock makes a directory and waits for an exclusive lock on it.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}
