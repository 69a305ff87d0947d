// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPauseWaitsForAccept: a connection that Accept is about to take as the gate is shut is taken before Pause has ended, or not.
func TestPauseWaitsForAccept(t *testing.T) {
	ln, err := Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	require.NoError(t, err)
	defer ln.Close()
	g := newGate(ln)
	require.True(t, g.begin()) // as Accept does
	paused := make(chan struct{})
	go func() { g.pause(patience); close(paused) }()
	require.Eventually(t, func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.shut != nil }, patience, time.Millisecond)
	select {
	case <-paused:
		assert.Fail(t, "Accept may still take a connection")
	case <-time.After(20 * time.Millisecond):
	}
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	_, err = g.take()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	<-paused
	g.resume()
	require.True(t, g.begin())
	c, err := g.take()
	require.NoError(t, err, "it is still in the queue")
	assert.NoError(t, c.Close())
}
