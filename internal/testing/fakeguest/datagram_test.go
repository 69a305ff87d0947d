// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// datagramPair makes two guests whose datagram sockets are joined, without a daemon.
func datagramPair(t *testing.T) (a, b *Guest) {
	t.Helper()
	a, conn := datagramGuest(t)
	l, err := DatagramLink(conn)
	require.NoError(t, err)
	return a, plug(t, l, Options{Name: "b", Timeout: patience})
}

func path(t *testing.T, o PathOptions) *Guest {
	t.Helper()
	l, err := PathLink(t.Context(), o)
	require.NoError(t, err)
	return plug(t, l, Options{Name: filepath.Base(o.Local), Timeout: patience})
}

// shortDir is a directory whose paths fit into the address of a socket on every system.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guest")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// pathPair makes two guests with sockets of both kinds, without a daemon: one is the other's server.
func pathPair(t *testing.T) (connected, unconnected *Guest) {
	t.Helper()
	dir := shortDir(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	unconnected = path(t, PathOptions{Server: a, Local: b})
	return path(t, PathOptions{Server: b, Local: a, Connected: true}), unconnected
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

// TestForeignDatagram: a client whose socket is not connected takes frames from any process, so the guest looks at the sender.
func TestForeignDatagram(t *testing.T) {
	dir := shortDir(t)
	server, local := filepath.Join(dir, "server"), filepath.Join(dir, "local")
	g := path(t, PathOptions{Server: server, Local: local})
	l := g.Listen(nil)
	for _, name := range []string{"", server, filepath.Join(dir, "other")} {
		require.NoError(t, g.Err(), "before one from %q", name)
		c, err := net.DialUnix("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}, &net.UnixAddr{Name: local, Net: "unixgram"})
		require.NoError(t, err)
		_, err = c.Write(make([]byte, 60))
		require.NoError(t, err)
		require.NoError(t, c.Close())
		if name == "" || name == server {
			_, err = l.Next(patience)
			require.NoError(t, err)
		}
	}
	<-g.Done()
	require.ErrorIs(t, g.Err(), ErrBadFrame)
	assert.ErrorContains(t, g.Err(), "other")
}

// TestDatagramPeerGoes: a connected guest learns it when it sends, one that is not goes on when the server comes back.
func TestDatagramPeerGoes(t *testing.T) {
	frame := EthernetFrame(Broadcast, net.HardwareAddr{2, 0, 0, 0, 0, 2}, TypeTest, nil)
	g, conn := datagramGuest(t)
	require.NoError(t, conn.Close())
	require.NoError(t, g.Err())
	require.Error(t, g.Send(frame))
	<-g.Done()
	require.True(t, peerGone(g.Err()), "%v", g.Err())
	g.Close()

	dir := shortDir(t)
	server, local := filepath.Join(dir, "server"), filepath.Join(dir, "local")
	g = path(t, PathOptions{Server: server, Local: local})
	for range 2 {
		require.Error(t, g.Send(frame), "no server there")
		s, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: server, Net: "unixgram"})
		require.NoError(t, err)
		require.NoError(t, g.Send(frame))
		got := make([]byte, 100)
		n, from, err := s.ReadFromUnix(got)
		require.NoError(t, err)
		assert.Equal(t, frame, got[:n])
		assert.Equal(t, local, from.Name)
		require.NoError(t, s.Close())
		require.NoError(t, os.Remove(server))
		require.NoError(t, g.Err())
	}
	g.Close()
	assert.NoFileExists(t, local)
}

// TestPathWaitsForServer: a connected client waits for its daemon and says hello first.
func TestPathWaitsForServer(t *testing.T) {
	dir := shortDir(t)
	o := PathOptions{Server: filepath.Join(dir, "server"), Local: filepath.Join(dir, "local"), Connected: true, Hello: true}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := PathLink(ctx, o)
	require.ErrorIs(t, err, syscall.ENOENT)
	assert.NoFileExists(t, o.Local)

	servers := make(chan *net.UnixConn, 1)
	time.AfterFunc(20*time.Millisecond, func() {
		s, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: o.Server, Net: "unixgram"})
		assert.NoError(t, err)
		servers <- s
	})
	l, err := PathLink(t.Context(), o)
	require.NoError(t, err)
	assert.NoError(t, plug(t, l, Options{}).Err())
	s := <-servers
	defer s.Close()
	got := make([]byte, 10)
	n, err := s.Read(got)
	require.NoError(t, err)
	assert.Equal(t, "VFKT", string(got[:n]))

	_, err = PathLink(t.Context(), o)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	assert.FileExists(t, o.Local, "another process's")
}
