// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// datagramPair is pair of datagram sockets.
func datagramPair(t testing.TB) (daemon, client *net.UnixConn) {
	t.Helper()
	return socketpair(t, unix.SOCK_DGRAM)
}

// send writes one datagram. Where the receiver has no room Linux waits, and macOS says ENOBUFS.
func send(t *testing.T, c *net.UnixConn, b []byte) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := c.Write(b)
		if !errors.Is(err, unix.ENOBUFS) {
			require.NoError(t, err)
		}
		return err == nil
	}, 20*time.Second, 50*time.Microsecond)
}

// datagram is newStream of the other kind.
func datagram(t *testing.T) (d *Datagram, client *net.UnixConn) {
	t.Helper()
	daemon, client := datagramPair(t)
	d, err := newDatagram(daemon, DatagramOptions{})
	require.NoError(t, err)
	return d, client
}

func startDatagram(t *testing.T, conn *net.UnixConn, o DatagramOptions) *running {
	t.Helper()
	d, err := newDatagram(conn, o)
	require.NoError(t, err)
	return run(t, d)
}

// frameOf is a frame with the given payload.
func frameOf(payload string) []byte { return wire(payload)[frame.PrefixLen:] }

// received are the lengths of the datagrams that wait at a client.
func received(t *testing.T, client *net.UnixConn) (lens []int) {
	t.Helper()
	rc, err := client.SyscallConn()
	require.NoError(t, err)
	buf := make([]byte, mmsg.MaxLen+1)
	require.NoError(t, rc.Control(func(fd uintptr) {
		for {
			n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			lens = append(lens, n)
		}
	}))
	return lens
}

// fill sends frames until the client's socket takes no more, and returns how many it took.
func fill(t *testing.T, client *net.UnixConn) (n int) {
	t.Helper()
	rc, err := client.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, rc.Control(func(fd uintptr) {
		f := frameOf("fill")
		for unix.Send(int(fd), f, unix.MSG_DONTWAIT) == nil {
			n++
		}
	}))
	require.NotZero(t, n)
	return n
}

func TestDatagramBadInput(t *testing.T) {
	for name, c := range map[string]struct {
		input [][]byte
		want  Stats
	}{
		"empty":              {[][]byte{{}, {}}, Stats{DropRunt: 2}},
		"vfkit's hello":      {[][]byte{[]byte("VFKT")}, Stats{}},
		"four other bytes":   {[][]byte{[]byte("VFKX")}, Stats{DropRunt: 1}},
		"one byte too few":   {[][]byte{make([]byte, 13)}, Stats{DropRunt: 1}},
		"a header alone":     {[][]byte{make([]byte, 14)}, Stats{ToNetFrames: 1, ToNetBytes: 14}},
		"longest":            {[][]byte{make([]byte, mmsg.MaxLen)}, Stats{ToNetFrames: 1, ToNetBytes: mmsg.MaxLen}},
		"one byte too many":  {[][]byte{make([]byte, mmsg.MaxLen+1)}, Stats{DropLong: 1}},
		"64 KiB":             {[][]byte{make([]byte, 64<<10)}, Stats{ToNetFrames: 1, ToNetBytes: 64 << 10}},
		"QEMU's longest":     {[][]byte{make([]byte, frame.MaxLen)}, Stats{DropLong: 1}},
		"wrong ones between": {[][]byte{make([]byte, 14), {}, make([]byte, 99000), make([]byte, 60)}, Stats{ToNetFrames: 2, ToNetBytes: 74, DropRunt: 1, DropLong: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			d, client := datagram(t)
			r := run(t, d)
			for _, b := range c.input {
				_, err := client.Write(b)
				require.NoError(t, err)
			}
			_, err := client.Write(frameOf("still here"))
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				got := r.got()
				return len(got) > 0 && got[len(got)-1] == "still here"
			}, 20*time.Second, time.Millisecond)
			c.want.ToNetFrames++
			c.want.ToNetBytes += uint64(len(frameOf("still here")))
			assert.Equal(t, c.want, r.Stats())
		})
	}
}

func TestDatagramLongFrames(t *testing.T) {
	d, client := datagram(t)
	r := run(t, d)
	r.Deliver(numbered(0, 2, mmsg.MaxLen))
	assert.Equal(t, mmsg.MaxLen, received(t, client)[0], "its buffer is made for that")
	require.NoError(t, d.conn.SetWriteBuffer(4096))
	var buf []byte
	for _, n := range []int{60, 60000, 70} {
		buf = frame.Append(buf, make([]byte, n))
	}
	received(t, client)
	r.Deliver(frame.NewBatch(buf, 3))
	var lens []int
	require.Eventually(t, func() bool {
		lens = append(lens, received(t, client)...)
		return len(lens) > 1 && lens[len(lens)-1] == 70
	}, 20*time.Second, time.Millisecond)
	assert.Equal(t, uint64(1), r.Stats().DropOversize)
}

func TestDatagramClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(c *net.UnixConn) error{
		"closes":                 (*net.UnixConn).Close,
		"refuses to be written":  (*net.UnixConn).CloseRead,
		"closes, and both ended": func(c *net.UnixConn) error { return errors.Join(c.CloseRead(), c.CloseWrite(), c.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			d, client := datagram(t)
			r := run(t, d)
			for range 50 {
				_, err := client.Write(frameOf("last words"))
				require.NoError(t, err)
			}
			require.NoError(t, leave(client))
			require.Eventually(t, func() bool { return len(r.got()) == 50 }, 20*time.Second, time.Millisecond)
			r.Deliver(numbered(0, 3, 100)) // only that tells
			assert.Equal(t, io.EOF, r.wait(t))
			assert.Equal(t, uint64(3), r.Stats().DropClosed)
			assert.True(t, r.Gone())
			r.Deliver(numbered(0, 1, 100))
			assert.Equal(t, uint64(4), r.Stats().DropClosed)
			require.NoError(t, r.Close())
		})
	}
}

// TestDatagramHandlerPanics: the session that catches it has the client drained, which has all of its room again then.
func TestDatagramHandlerPanics(t *testing.T) {
	d, client := datagram(t)
	fill(t, client)
	assert.Panics(t, func() { _ = d.Run(panicking{}) })
	fill(t, client)
	d.Drain()
	fill(t, client) // there is room again
	require.NoError(t, d.Close())
}

// TestOnlyTheClientIsServed: any process that may write a socket's path could send frames in the client's name.
func TestOnlyTheClientIsServed(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "link")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	at := func(name string) *net.UnixAddr { return &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixgram"} }
	client, err := net.ListenUnixgram("unixgram", at("client"))
	require.NoError(t, err)
	defer client.Close()
	daemon, err := net.DialUnix("unixgram", at("daemon"), at("client"))
	require.NoError(t, err)
	r := startDatagram(t, daemon, DatagramOptions{Shared: true})
	bound, err := net.ListenUnixgram("unixgram", at("other"))
	require.NoError(t, err)
	defer bound.Close()
	for range 3 {
		_, _ = bound.WriteToUnix(frameOf("injected"), at("daemon")) // Linux refuses
		_, err = client.WriteToUnix(frameOf("mine"), at("daemon"))
		require.NoError(t, err)
	}
	if unbound, err := net.DialUnix("unixgram", nil, at("daemon")); err == nil { // Linux refuses
		defer unbound.Close()
		_, err = unbound.Write(frameOf("injected"))
		require.NoError(t, err)
	}
	_, err = client.WriteToUnix(frameOf("last"), at("daemon"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return slices.Contains(r.got(), "last") }, 20*time.Second, time.Millisecond)
	assert.Equal(t, []string{"mine", "mine", "mine", "last"}, r.got())
	want := 4
	if runtime.GOOS == "linux" {
		want = 0 // they never came
	}
	assert.EqualValues(t, want, r.Stats().DropForeign)
}
