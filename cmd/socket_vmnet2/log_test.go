// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStalledLogHarmsNobody has a daemon write its log into a pipe that nobody reads.
func TestStalledLogHarmsNobody(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	sock := filepath.Join(t.TempDir(), "s")
	// The pipe is full before the daemon says a word.
	fd := int(w.Fd())
	require.NoError(t, syscall.SetNonblock(fd, true))
	for err = nil; err == nil; _, err = syscall.Write(fd, make([]byte, 512)) {
	}
	require.ErrorIs(t, err, syscall.EAGAIN)
	require.NoError(t, syscall.SetNonblock(fd, false))
	c := command("socket_vmnet2", sock)
	c.Stderr = w
	p := runDaemon(t, c, sock)
	require.NoError(t, w.Close())
	p.ready(t)
	p.talkers(t).check("the network runs on")
	code, took := p.signal(t, syscall.SIGTERM)
	assert.Zero(t, code)
	assert.Less(t, took, stopTime)
}
