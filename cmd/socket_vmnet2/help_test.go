// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// TestMistypedCommand: no daemon is started for one, and the old program has none to mistype.
func TestMistypedCommand(t *testing.T) {
	want := `unknown command "statsu": there are ` + printable.List(commandNames()) + ". A socket is given by its path, such as ./statsu"
	r := refused(t, t.TempDir(), "socket_vmnet2", "statsu", "--pidfile=pid")
	assert.Equal(t, "ERROR| "+want+"\n", r.stderr)
	assert.Empty(t, r.stdout)
	r = refused(t, t.TempDir(), "socket_vmnet", "--pidfile=missing/pid", "statsu")
	assert.Contains(t, r.stderr, "Failed to open pidfile", "it is a daemon")
	r = refused(t, t.TempDir(), "socket_vmnet", "selftest", "--json")
	assert.Contains(t, r.stderr, "json", "an unknown option of the old program")
}

func TestHelp(t *testing.T) {
	out, err := exec.Command(filepath.Join(binaries, "socket_vmnet2"), "help").Output()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(out), "Usage: socket_vmnet2 [OPTION]... SOCKET\n"), string(out))
	assert.Contains(t, string(out), ": "+strings.Join(commandNames(), ", ")+"\n")
	for _, name := range commandNames() {
		code, stdout, stderr := call("help", name)
		_, own, _ := call(name, "--help")
		assert.Zero(t, code, name)
		assert.Equal(t, own, stdout)
		assert.True(t, strings.HasPrefix(stdout, "Usage: socket_vmnet2 "+name), stdout)
		assert.Empty(t, stderr)
	}
	code, stdout, stderr := call("help", "statsu")
	assert.Equal(t, 1, code)
	assert.Equal(t, "ERROR| unknown command \"statsu\": there are "+printable.List(commandNames())+".\n", stderr)
	assert.Empty(t, stdout)
}

func TestVersion(t *testing.T) {
	code, stdout, stderr := call("version")
	assert.Zero(t, code)
	assert.Equal(t, compat.Version+"\n", stdout, "as --version has it")
	assert.Empty(t, stderr)

	code, stdout, _ = call("version", "--json")
	assert.Zero(t, code)
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(stdout), &got), stdout)
	assert.Equal(t, map[string]string{"version": compat.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}, got)
	assert.Equal(t, 1, strings.Count(stdout, "\n"))
}
