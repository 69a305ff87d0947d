// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
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
	dir := t.TempDir()
	p := &process{sock: filepath.Join(dir, "s"), stderr: &output{}, ended: make(chan struct{})}
	// The pipe is full before the daemon says a word.
	fd := int(w.Fd())
	require.NoError(t, syscall.SetNonblock(fd, true))
	for err = nil; err == nil; _, err = syscall.Write(fd, make([]byte, 512)) {
	}
	require.ErrorIs(t, err, syscall.EAGAIN)
	require.NoError(t, syscall.SetNonblock(fd, false))
	p.Cmd = exec.Command(filepath.Join(binaries, "socket_vmnet2"), "--backend=usernet", "--state-dir="+dir+"/state", p.sock)
	p.Stderr = w
	require.NoError(t, p.Start())
	require.NoError(t, w.Close())
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
	})
	p.ready(t)
	p.talkers(t).check("the network runs on")
	code, took := p.signal(t, syscall.SIGTERM)
	assert.Zero(t, code)
	assert.Less(t, took, stopTime)
}
