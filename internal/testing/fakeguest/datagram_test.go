// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// socketPair makes two datagram sockets that are connected to each other.
func socketPair(t *testing.T) (ends [2]*net.UnixConn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	require.NoError(t, err)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		ends[i] = c.(*net.UnixConn)
		// macOS's own are 2 and 4 KiB: no longer datagram can be sent.
		require.NoError(t, ends[i].SetWriteBuffer(vfkitSendBuffer))
		require.NoError(t, ends[i].SetReadBuffer(vfkitReceiveBuffer))
		t.Cleanup(func() { _ = c.Close() })
	}
	return ends
}

// datagramGuest plugs a guest into one end of a socket pair and returns the other.
func datagramGuest(t *testing.T) (*Guest, *net.UnixConn) {
	t.Helper()
	ends := socketPair(t)
	l, err := DatagramLink(ends[0])
	require.NoError(t, err)
	return plug(t, l, Options{Name: "a", Timeout: patience}), ends[1]
}

// TestBadDatagrams sends what a daemon must never send: the guest ends with an error.
func TestBadDatagrams(t *testing.T) {
	for name, n := range map[string]int{"0": 0, "13": 13, "65551": MaxDatagramLen + 1, "70000": 70000} {
		t.Run(name, func(t *testing.T) {
			g, conn := datagramGuest(t)
			_, err := conn.Write(make([]byte, n))
			require.NoError(t, err)
			<-g.Done()
			assert.ErrorIs(t, g.Err(), ErrBadFrame)
		})
	}
	g, conn := datagramGuest(t)
	l := g.Listen(nil)
	for _, n := range []int{14, MaxDatagramLen} {
		_, err := conn.Write(make([]byte, n))
		require.NoError(t, err)
		f, err := l.Next(patience)
		require.NoError(t, err)
		assert.Len(t, f, n)
	}
	assert.NoError(t, g.Err())
}
