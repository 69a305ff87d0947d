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
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClose: a lab leaves no process and no file.
func TestClose(t *testing.T) {
	l := emptyLab(t)
	p, err := l.Start("sleeper", "sh", "-c", "trap '' TERM; sleep 100 & echo up; wait; sleep 100")
	require.NoError(t, err)
	_, err = p.Output().WaitFor(t.Context(), "up")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.Equal(t, -1, p.ExitCode(), "ended by a signal")
	_, err = os.Stat(l.Dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// emptyLab is a Lab without guests.
func emptyLab(t *testing.T) *Lab {
	t.Helper()
	l, err := New(t.Context(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// TestPeerFault: a frame that a daemon's end cuts is told. What it sends, misses and does at the next daemon each run of
// test/reconnect shows.
func TestPeerFault(t *testing.T) {
	l := emptyLab(t)
	socket := l.Path("s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	p := l.NewPeer(socket, net.HardwareAddr{2, 0, 0, 0, 0, 0x99}, time.Hour, false)
	defer p.Close()
	for _, cut := range []int{0, 20} {
		c, err := ln.AcceptUnix()
		require.NoError(t, err)
		_, err = c.Write(frame.Append(frame.Append(nil, make([]byte, 60)), make([]byte, 60))[:64+cut])
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		_, err = io.Copy(io.Discard, c) // until the Peer has closed its end
		require.NoError(t, err)
		require.NoError(t, c.Close())
		if cut == 0 {
			require.Empty(t, p.Faults())
		}
	}
	require.Eventually(t, func() bool { return len(p.Faults()) == 1 }, 20*time.Second, time.Millisecond)
	assert.ErrorContains(t, p.Faults()[0], "cut")
}
