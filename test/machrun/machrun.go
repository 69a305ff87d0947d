// SPDX-License-Identifier: Apache-2.0

// Package machrun builds the loader in csrc, which runs programs for macOS on Linux, and flips its switches.
package machrun

import (
	"context"
	"embed"
	"testing"

	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
)

//go:embed csrc/*.c csrc/*.h
var csrc embed.FS

// SanitizeEnv is a variable that, set to anything, has Build make a loader with gcc's address and undefined behaviour
// sanitizers.
const SanitizeEnv = "MACHRUN_SANITIZE"

// linking makes the loader's pthread_create that of the libraries that it loads.
var linking = []string{"-rdynamic", "-ldl"}

// Program builds the loader unless it is there already, and returns its path. Without gcc it skips the test, except in
// CI, where it fails.
func Program(tb testing.TB) string {
	tb.Helper()
	p, err := Build(tb.Context())
	return cbuild.Must(tb, p, err)
}

// Build builds the loader unless it is there already, and returns its path. It may run in several processes at the same
// time.
func Build(ctx context.Context) (string, error) {
	files, err := cbuild.Sources(csrc)
	if err != nil {
		return "", err
	}
	flags := append([]string{"-O2"}, linking...)
	flags = append(flags, cbuild.Sanitizers(SanitizeEnv)...)
	return cbuild.Program{Dir: "machrun", Name: "machrun", Flags: flags, Files: files}.Build(ctx)
}
