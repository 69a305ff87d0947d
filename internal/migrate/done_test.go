// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOldDaemonOfNewProgram has our program installed and the daemon still be the one from before: it has no control socket.
func TestOldDaemonOfNewProgram(t *testing.T) {
	s := busy(t)
	self, err := os.Executable() // a program of this module, whatever its name
	require.NoError(t, err)
	program := filepath.Join(s.Root, "/opt/socket_vmnet/bin/socket_vmnet")
	require.NoError(t, os.Remove(program))
	b, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, b, 0o755)) //nolint:gosec // a program
	for _, path := range []string{"/var/run/socket_vmnet", "/private/var/run/lima/socket_vmnet.shared", "/private/var/run/lima/socket_vmnet.shared.d/control"} {
		full := filepath.Join(s.Root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, nil, 0o600))
	}

	p := Find(t.Context(), s)
	assert.Equal(t, VerdictMigrate, p.Verdict)
	assert.True(t, p.Installs[0].Ours)
	assert.False(t, p.Installs[0].Backup)
	c := p.Changes[0]
	assert.Equal(t, StateToDo, c.State)
	assert.Empty(t, c.Undo, "nothing to go back to")
	assert.Equal(t, "sudo launchctl kickstart -k system/io.github.lima-vm.socket_vmnet", c.Steps[0].Command)
	assert.Contains(t, c.Steps[0].Note, "process 101 seems to be still the old program")
	assert.NotContains(t, c.Steps[1].Note, "process 102", "that one has its directory")

	require.NoError(t, os.Mkdir(filepath.Join(s.Root, "/var/run/socket_vmnet.d"), 0o750))
	p = Find(t.Context(), s)
	assert.Equal(t, VerdictDone, p.Verdict)
	assert.Equal(t, StateDone, p.Changes[0].State)
	assert.Empty(t, p.Changes[0].Steps)
}

// TestOthers are programs that are not ours, whatever they say.
func TestOthers(t *testing.T) {
	for name, tt := range map[string]struct{ content, version string }{
		"script":       {"#!/bin/sh\necho " + modulePath, ""},
		"C":            {"\x7fELF\x00v1.2.3\x00 " + modulePath, "v1.2.3"},
		"two versions": {"\x00" + "1.2.3-rc.1\x00\x009.9.9\x00", "1.2.3-rc.1"},
		"ELF cut off":  {"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00", ""},
		"Mach-O":       {"\xcf\xfa\xed\xfe\x07\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p")
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			f, err := os.Open(path)
			require.NoError(t, err)
			defer f.Close()
			ours, version := inFile(f, int64(len(tt.content)))
			assert.False(t, ours)
			assert.Equal(t, tt.version, version)
		})
	}
}
