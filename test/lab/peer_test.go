// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab/sequence"
)

var (
	peerAddress  = net.HardwareAddr{2, 0, 0, 0, 0, 0x99}
	guestAddress = net.HardwareAddr{2, 0, 0, 0, 0, 1}
)

// fakeDaemon takes the Peer's connection on socket.
func fakeDaemon(t *testing.T, socket string) (*net.UnixListener, net.Conn) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	require.NoError(t, ln.SetDeadline(time.Now().Add(20*time.Second)))
	c, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return ln, c
}

// feed sends the frames from first to last to dst as a guest would, in one go, so that there is no gap between them.
func feed(t *testing.T, c net.Conn, dst net.HardwareAddr, first, last uint64) {
	t.Helper()
	var all []byte
	for n := first; n <= last; n++ {
		b := sequence.New(dst, guestAddress, 100)
		sequence.Put(b, sequence.Frame{Number: n, Sent: time.Duration(n) * time.Millisecond, Run: 7})
		all = frame.Append(all, b)
	}
	_, err := c.Write(all)
	require.NoError(t, err)
}

// TestPeer: it is back with the next daemon, and has what it missed as a gap.
func TestPeer(t *testing.T) {
	l := emptyLab(t)
	socket := l.Path("s")
	p := l.NewPeer(socket, peerAddress, time.Millisecond)
	defer p.Close()
	require.NoError(t, p.SendTo(guestAddress.String()))
	began := time.Now()
	ln, c := fakeDaemon(t, socket)
	joined, err := p.WaitJoined(t.Context(), began)
	require.NoError(t, err)

	feed(t, c, peerAddress, 1, 100)
	feed(t, c, guestAddress, 1000, 1010) // flooded
	frames := func(want uint64) {
		t.Helper()
		require.Eventually(t, func() bool { return p.From(guestAddress.String()).Frames == want }, 20*time.Second, time.Millisecond)
	}
	frames(100)
	p.Cut()
	ln.Close() // removes the socket
	require.NoError(t, c.(*net.UnixConn).CloseWrite())
	_, err = io.Copy(io.Discard, c) // to be closed with something unread would be no orderly end
	require.NoError(t, err)
	const outage = 300 * time.Millisecond
	time.Sleep(outage)
	assert.True(t, p.Joined(joined).IsZero(), "there is nothing to connect to")
	assert.False(t, p.Ended(joined).IsZero())

	ln, c = fakeDaemon(t, socket)
	again, err := p.WaitJoined(t.Context(), joined)
	require.NoError(t, err)
	feed(t, c, peerAddress, 151, 200)
	frames(50)
	r := p.From(guestAddress.String())
	assert.Equal(t, uint64(50), r.Lost)
	assert.GreaterOrEqual(t, r.Longest().Length(), outage)
	assert.Equal(t, r.Longest(), r.Over(p.Clock(again)))
	assert.Equal(t, r.Longest(), r.Hole)
	assert.Empty(t, p.Faults())

	// What it sends arrives at whom it is for, and goes on with its numbers.
	var tr sequence.Tracker
	taken := make(chan struct{}, 1)
	go func() {
		_ = readFrames(c, func(b frame.Batch) {
			for it := b.Iter(); it.Next(); {
				if f, ok, intact := sequence.Parse(it.Frame()); ok {
					tr.Take(f, f.Sent, intact)
				}
			}
			if tr.Report().Frames > 10 {
				select {
				case taken <- struct{}{}:
				default:
				}
			}
		})
		close(taken)
	}()
	<-taken
	_, err = c.Write(frame.Append(nil, make([]byte, 60))[:20])
	require.NoError(t, err)
	ln.Close()
	require.NoError(t, c.(*net.UnixConn).CloseWrite())
	require.Eventually(t, func() bool { return len(p.Faults()) == 1 }, 20*time.Second, time.Millisecond)
	assert.ErrorContains(t, p.Faults()[0], "cut")
	for range taken { // until the Peer has closed its end
	}
	assert.Greater(t, tr.Report().Last, tr.Report().Frames, "it had counted on without a connection")
	assert.Zero(t, tr.Report().Damaged)
	_, err = os.Lstat(socket)
	assert.ErrorIs(t, err, os.ErrNotExist)
}
