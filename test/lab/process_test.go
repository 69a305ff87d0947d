// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInheritedStaysHere: a program of a lab does not have a file that the lab's own caller left open.
func TestInheritedStaysHere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "left-open")
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR, 0o600) // as if it had been there at the start
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, syscall.Close(fd)) })
	helper := filepath.Join(t.TempDir(), "helper")
	require.NoError(t, os.WriteFile(helper, nil, 0o600))
	busybox, err := os.Executable()
	require.NoError(t, err)
	l, err := New(t.Context(), Options{Tools: Tools{Helper: helper, Busybox: busybox}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	p, err := l.Start("ls", "/bin/sh", "-c", "ls -l /dev/fd/ ; echo end")
	require.NoError(t, err)
	_, err = p.Output().WaitFor(t.Context(), "end")
	require.NoError(t, err)
	assert.NotContains(t, p.Output().String(), "left-open")
	assert.Contains(t, p.Output().String(), "pipe:", "what it has is listed: %s", p.Output())
}
