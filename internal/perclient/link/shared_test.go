// SPDX-License-Identifier: Apache-2.0

package link

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A holder is a process that passed its end of a connection to the daemon and kept a copy of it.
type holder struct {
	t  *testing.T
	fd int
}

// hold copies the descriptor of the daemon's end before the daemon has it.
func hold(t *testing.T, daemon *net.UnixConn) holder {
	t.Helper()
	rc, err := daemon.SyscallConn()
	require.NoError(t, err)
	h := holder{t: t}
	require.NoError(t, rc.Control(func(fd uintptr) { h.fd, err = unix.Dup(int(fd)) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(h.fd) })
	return h
}

// block clears O_NONBLOCK, which both copies share.
func (h holder) block() {
	h.t.Helper()
	require.NoError(h.t, unix.SetNonblock(h.fd, false))
}

// A sharedLink is a link of either kind to a client that holds the daemon's end as well.
type sharedLink struct {
	Link
	holder
	client *net.UnixConn
	got    collector
	done   chan struct{}
	err    error
	ended  bool
	sched  DrainSchedule
}

func (l *sharedLink) run() {
	defer close(l.done)
	l.err = l.Run(&l.got)
}

// end shuts the link down in the way that the daemon does, and fails when that takes long.
func (l *sharedLink) end(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	if l.ended {
		return 0
	}
	l.ended = true
	l.Shutdown(l.sched)
	closed := make(chan error, 1)
	go func() {
		<-l.done
		closed <- l.Close()
	}()
	select {
	case err := <-closed:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "Close hangs")
	}
	return time.Since(began)
}

// eachShared runs f on a link of each kind, whose client holds the daemon's end.
func eachShared(t *testing.T, f func(t *testing.T, l *sharedLink)) {
	t.Helper()
	for name, kind := range map[string]func(*testing.T) (*net.UnixConn, *net.UnixConn, func(*net.UnixConn) (Link, error)){
		"stream": func(t *testing.T) (*net.UnixConn, *net.UnixConn, func(*net.UnixConn) (Link, error)) {
			daemon, client := pair(t)
			return daemon, client, func(c *net.UnixConn) (Link, error) {
				return NewStream(c, StreamOptions{QueueSize: smallQueue, Shared: true})
			}
		},
		"datagram": func(t *testing.T) (*net.UnixConn, *net.UnixConn, func(*net.UnixConn) (Link, error)) {
			daemon, client := datagramPair(t)
			return daemon, client, func(c *net.UnixConn) (Link, error) {
				return newDatagram(c, DatagramOptions{QueueSize: smallQueue, Shared: true})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			daemon, client, link := kind(t)
			l := &sharedLink{holder: hold(t, daemon), client: client, done: make(chan struct{}), sched: DrainOne}
			var err error
			l.Link, err = link(daemon)
			require.NoError(t, err)
			go l.run()
			f(t, l)
			l.end(t)
		})
	}
}

// TestSharedDeafClient never reads, and clears O_NONBLOCK so that a write would wait for ever.
func TestSharedDeafClient(t *testing.T) {
	eachShared(t, func(t *testing.T, l *sharedLink) {
		l.block()
		delivered := make(chan struct{})
		go func() {
			defer close(delivered)
			for i := range 2000 {
				l.Deliver(numbered(i, 1, 1514))
			}
		}()
		select {
		case <-delivered:
		case <-time.After(30 * time.Second):
			require.Fail(t, "Deliver waits for the client")
		}
		st := l.Stats()
		assert.NotZero(t, st.DropQueueFull)
		assert.Equal(t, uint64(2000), st.DropQueueFull+st.ToClientFrames)
		assert.LessOrEqual(t, st.Queued, smallQueue)
		assert.False(t, l.Gone(), "asking waits for nothing")
		payload := wire("I can talk")
		if _, isDatagram := l.Link.(*Datagram); isDatagram {
			payload = payload[frame.PrefixLen:]
		}
		send(t, l.client, payload)
		require.Eventually(t, func() bool { return len(l.got.got()) == 1 }, 20*time.Second, time.Millisecond, "a deaf client may still send")
		assert.Less(t, l.end(t), 20*time.Second)
		assert.ErrorIs(t, l.err, ErrShutdown)
	})
}

// TestSharedCloseEndsTheConnection: the client's copy keeps the socket open, so closing ours alone would tell nothing.
func TestSharedCloseEndsTheConnection(t *testing.T) {
	eachShared(t, func(t *testing.T, l *sharedLink) {
		if _, isStream := l.Link.(*stream); isStream {
			l.sched = DrainStop // no next daemon could go on with it
		}
		l.end(t)
		require.NoError(t, l.client.SetDeadline(time.Now().Add(time.Minute)))
		var err error
		if _, isDatagram := l.Link.(*Datagram); isDatagram {
			_, err = l.client.Write(frameOf("is it there?"))
			assert.True(t, IsGone(err), "%v", err)
			return
		}
		_, err = l.client.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
	})
}

// TestSharedEndGoesOn: at the daemon's stop the end stays as it is, and a process that has a copy can hand it to the next daemon.
func TestSharedEndGoesOn(t *testing.T) {
	daemon, client := datagramPair(t)
	h := hold(t, daemon)
	serve := func(conn *net.UnixConn, text string, sched DrainSchedule) {
		r := startDatagram(t, conn, DatagramOptions{Shared: true})
		_, err := client.Write(frameOf(text))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return r.Stats().ToNetFrames == 1 }, 20*time.Second, time.Millisecond)
		r.Deliver(numbered(0, 1, 100))
		require.Eventually(t, func() bool { return len(received(t, client)) == 1 }, 20*time.Second, time.Millisecond, "its drainer sends it on macOS")
		r.Shutdown(sched)
		require.ErrorIs(t, r.wait(t), ErrShutdown)
		require.NoError(t, r.Close())
	}
	serve(daemon, "the first daemon", DrainStop)
	_, err := client.Write(frameOf("not served just now"))
	require.NoError(t, err)
	_, err = client.Write([]byte{})
	require.NoError(t, err)
	again := func() *net.UnixConn {
		fd, err := unix.Dup(h.fd)
		require.NoError(t, err)
		f := os.NewFile(uintptr(fd), "again")
		defer f.Close()
		c, err := net.FileConn(f)
		require.NoError(t, err)
		return c.(*net.UnixConn)
	}
	second := again()
	buf := make([]byte, 100)
	n, err := second.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, frameOf("not served just now"), buf[:n])
	_, _ = second.Read(buf)
	serve(second, "the second daemon", DrainStop)
	serve(again(), "one that ends it alone", DrainOne)
	_, err = client.Write(frameOf("is it there?"))
	assert.True(t, IsGone(err), "%v", err)
}

// TestSharedShutDown has the client shut down what it passed.
func TestSharedShutDown(t *testing.T) {
	eachShared(t, func(t *testing.T, l *sharedLink) {
		l.block()
		require.NoError(t, unix.Shutdown(l.fd, unix.SHUT_RDWR))
		l.Deliver(numbered(0, 1, 100))
		select {
		case <-l.done:
		case <-time.After(30 * time.Second):
			require.Fail(t, "Run did not return")
		}
		assert.NotErrorIs(t, l.err, ErrShutdown)
	})
}
