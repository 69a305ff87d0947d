// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPauseWaitsForAccept: a connection that Accept is about to take as the gate is shut is taken before Pause has ended, or not.
func TestPauseWaitsForAccept(t *testing.T) {
	path := socketPath(t)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer ln.Close()
	g := newGate(ln, nil)
	require.NoError(t, g.waitOpen()) // as Accept does
	paused := make(chan struct{})
	go func() { g.pause(patience); close(paused) }()
	require.Eventually(t, func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.shut != nil }, patience, time.Millisecond)
	select {
	case <-paused:
		assert.Fail(t, "Accept may still take a connection")
	case <-time.After(20 * time.Millisecond):
	}
	client, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer client.Close()
	_, err = g.take()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	<-paused
	g.resume()
	require.NoError(t, g.waitOpen())
	c, err := g.take()
	require.NoError(t, err, "it is still in the queue")
	assert.NoError(t, c.Close())
}
