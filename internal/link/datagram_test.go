// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// datagramPair is a connected pair of datagram sockets, both non-blocking: the daemon's end and the client's.
func datagramPair(t testing.TB) (daemon, client *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	require.NoError(t, err)
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		require.NoError(t, unix.SetNonblock(fd, true))
		f := os.NewFile(uintptr(fd), "socketpair")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		conns[i] = c.(*net.UnixConn)
	}
	t.Cleanup(func() { _ = conns[1].Close() })
	return conns[0], conns[1]
}

// runningDatagram is a Datagram whose Run is under way.
type runningDatagram struct {
	*Datagram
	collector
	err  error
	done chan struct{}
}

func startDatagram(t *testing.T, conn *net.UnixConn, o DatagramOptions) *runningDatagram {
	t.Helper()
	d, err := NewDatagram(conn, o)
	require.NoError(t, err)
	r := &runningDatagram{Datagram: d, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = d.Run(&r.collector)
	}()
	t.Cleanup(func() {
		d.Shutdown(DrainOne)
		<-r.done
		_ = d.Close()
	})
	return r
}

func (r *runningDatagram) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(10 * time.Second):
		require.Fail(t, "Run did not return")
		return nil
	}
}

func TestDatagramBothWays(t *testing.T) {
	daemon, client := datagramPair(t)
	r := startDatagram(t, daemon, DatagramOptions{})
	_, err := client.Write(wire("up")[4:])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(r.got()) == 1 }, 5*time.Second, time.Millisecond)
	assert.Equal(t, []string{"up"}, r.got())
	r.Deliver(numbered(0, 3, 100))
	buf := make([]byte, 2000)
	for range 3 {
		n, err := client.Read(buf)
		require.NoError(t, err)
		assert.Equal(t, 100, n)
	}
	r.Shutdown(DrainOne)
	assert.ErrorIs(t, r.wait(t), ErrShutdown)
}
