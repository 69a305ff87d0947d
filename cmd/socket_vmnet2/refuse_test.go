// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// result is what a daemon that must not start has said.
type result struct{ stdout, stderr string }

// refused runs name with args in dir and checks that it exits with 1 and leaves dir as it was.
func refused(t *testing.T, dir, name string, args ...string) result {
	t.Helper()
	before := listing(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, name), args...)
	cmd.Dir = dir
	code, stdout, stderr := outcome(t, cmd)
	assert.Equal(t, 1, code, "it started or was killed: %s", stderr)
	assert.Equal(t, before, listing(t, dir), "nothing is made or removed")
	return result{stdout, stderr}
}

// listing is the names and kinds of the files in dir, but for lock files.
func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		fi, err := e.Info()
		require.NoError(t, err)
		names = append(names, fi.Mode().String()+" "+e.Name())
	}
	return names
}

func TestHomebrewFormulaContract(t *testing.T) {
	for name, line := range map[string]string{"socket_vmnet": "in use\nERROR| ", "socket_vmnet2": "in use: "} {
		r := refused(t, t.TempDir(), name, "/dev/null")
		assert.Contains(t, r.stderr, "ERROR| bind: Address already "+line+"/dev/null is not a socket: give a path where nothing is yet\n")
	}
	fi, err := os.Lstat("/dev/null")
	require.NoError(t, err)
	assert.NotZero(t, fi.Mode()&os.ModeCharDevice, "/dev/null is still there")
}

// TestFlagsThatAreRefused: bad values leave nothing behind. Package compat has all of them.
func TestFlagsThatAreRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"unknown group name": {"--socket-group=no-such-group"},
		"needs macOS vmnet":  {"--backend=usernet", "--vmnet-mode=bridged", "--vmnet-interface=en0"},
		"--backend=usernet":  {"--backend=vmnet"},
	} {
		if runtime.GOOS != "darwin" || args[0] != "--backend=vmnet" { // there is vmnet
			r := refused(t, t.TempDir(), "socket_vmnet2", append(args, "./s")...)
			assert.Contains(t, r.stderr, want)
		}
	}
}
