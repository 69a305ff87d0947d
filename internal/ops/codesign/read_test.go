// SPDX-License-Identifier: Apache-2.0

package codesign

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// run runs the go command in a directory.
func run(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = dir
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// built are real programs, as Go's linker leaves them, signed on arm64 only; and signed by tools/release.
func built(t *testing.T, goarch string) (linked, signed []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	run(t, "../../..", []string{"GOOS=darwin", "GOARCH=" + goarch}, "build", "-trimpath", "-ldflags=-s -w", "-o", file, "./cmd/socket_vmnet_client")
	linked, err := os.ReadFile(file)
	require.NoError(t, err)
	run(t, "../../../tools/release", []string{"GOOS=", "GOARCH="}, "run", ".", "sign", "-identifier=test", "-entitlements=etc/entitlements.plist", file)
	signed, err = os.ReadFile(file)
	require.NoError(t, err)
	return linked, signed
}

func TestRead(t *testing.T) {
	entitlements, err := os.ReadFile("../../../etc/entitlements.plist")
	require.NoError(t, err)
	for _, goarch := range []string{"arm64", "amd64"} {
		t.Run(goarch, func(t *testing.T) {
			linked, signed := built(t, goarch)
			s, err := Read(linked)
			if goarch == "arm64" {
				require.NoError(t, err)
				assert.Equal(t, Signature{Identifier: "a.out", AdHoc: true}, s)
			} else {
				require.EqualError(t, err, "not signed")
			}
			s, err = Read(signed)
			require.NoError(t, err)
			assert.Equal(t, Signature{Identifier: "test", AdHoc: true, Entitlements: entitlements}, s)
			for what, at := range map[string]int{
				"code":                len(linked) / 2,
				"identifier":          bytes.LastIndex(signed, []byte("test\x00")),
				"entitlements":        bytes.LastIndex(signed, []byte("<plist")),
				"binary entitlements": bytes.LastIndex(signed, []byte("com.apple")),
			} {
				signed[at] ^= 1
				s, err = Read(signed)
				require.NoError(t, err, what)
				assert.True(t, s.Damaged != "" || s.Identifier != "test", what)
				signed[at] ^= 1
			}
		})
	}
}

// TestReadDamaged: whatever is wrong with a file, it is an error or a mark, and no panic.
func TestReadDamaged(t *testing.T) {
	_, signed := built(t, "arm64")
	first := bytes.LastIndex(signed, []byte{0xfa, 0xde, 0x0c, 0xc0})
	require.Positive(t, first)
	for _, at := range [][2]int{{0, 4096}, {first, first + 300}, {len(signed) - 1500, len(signed)}} {
		for i := at[0]; i < at[1]; i += 3 {
			for _, bits := range []byte{0x01, 0x80} {
				signed[i] ^= bits
				_, _ = Read(signed)
				signed[i] ^= bits
			}
			_, _ = Read(signed[:i])
		}
	}
	for name, b := range map[string][]byte{"empty": nil, "text": []byte("#!/bin/sh\n")} {
		_, err := Read(b)
		assert.Error(t, err, name)
	}
}

// FuzzRead reads signatures of any form.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\xfa\xde\x0c\xc0\x00\x00\x00\x24\x00\x00\x00\x01" + "\x00\x00\x00\x05\x00\x00\x00\x14" + "\xfa\xde\x71\x71\x00\x00\x00\x0dplist"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = read([]byte("code"), b)
		_, _ = Read(b)
	})
}
