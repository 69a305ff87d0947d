// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// again is conn as a process image has it that was given the descriptor.
func again(t *testing.T, conn *net.UnixConn) *net.UnixConn {
	t.Helper()
	f, err := conn.File()
	require.NoError(t, err)
	c, err := net.FileConn(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return c.(*net.UnixConn)
}

// overTheWire is v as another image reads it.
func overTheWire(t *testing.T, v Saved) (out Saved) {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &out))
	return out
}

// pausing runs l until it stands still.
func pausing(t *testing.T, l Pausable, h Handler) (stand func()) {
	t.Helper()
	over := make(chan error, 1)
	go func() { over <- l.Run(h) }()
	return func() {
		t.Helper()
		l.Pause()
		select {
		case err := <-over:
			require.ErrorIs(t, err, ErrPaused)
		case <-time.After(20 * time.Second):
			require.Fail(t, "the link does not stand still")
		}
	}
}

// replace hands conn from l, which stands still, to another image of it.
func replaceStream(t *testing.T, conn *net.UnixConn, l *Stream) (*net.UnixConn, *Stream) {
	t.Helper()
	v := overTheWire(t, l.Save())
	assert.Equal(t, l.Fd(), v.FD)
	next := again(t, conn)
	require.NoError(t, l.Close())
	s, err := RestoreStream(next, StreamOptions{QueueSize: smallQueue}, v)
	require.NoError(t, err)
	return next, s
}

// TestStreamIsHandedOverWithinFrames cuts the link at every kind of place inside of a frame from the client.
func TestStreamIsHandedOverWithinFrames(t *testing.T) {
	daemon, client := pair(t)
	l, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	var h collector
	payload := "a frame that comes in two pieces"
	b := wire(payload)
	conn := daemon
	for cut := range len(b) + 1 {
		stand := pausing(t, l, &h)
		_, err := client.Write(b[:cut])
		require.NoError(t, err)
		if cut == len(b) {
			require.Eventually(t, func() bool { return len(h.got()) == cut+1 }, 20*time.Second, time.Millisecond)
		}
		stand()
		conn, l = replaceStream(t, conn, l)
		_, err = client.Write(b[cut:])
		require.NoError(t, err)
		stand = pausing(t, l, &h)
		require.Eventually(t, func() bool { return len(h.got()) == cut+1 }, 20*time.Second, time.Millisecond, "cut at %d", cut)
		stand()
		l.Resume()
	}
	for _, got := range h.got() {
		assert.Equal(t, payload, got)
	}
	assert.EqualValues(t, len(b)+1, l.Stats().ToNetFrames, "counters go with it")
	require.NoError(t, l.Close())
}

// TestStreamIsHandedOverWhileItsClientIsBehind: the client reads whole frames in their order, some of them lost and counted,
// whatever part of one was written.
func TestStreamIsHandedOverWhileItsClientIsBehind(t *testing.T) {
	for _, length := range []int{frame.MinLen + 8, 1514, 32768} {
		daemon, client := pair(t)
		conn := daemon
		l, err := NewStream(conn, StreamOptions{QueueSize: smallQueue})
		require.NoError(t, err)
		read := make(chan []uint64, 1)
		go func() { read <- readNumbers(client, length) }()
		var cuts int
		sent := 0
		rounds := 0
		// A cut takes a client that is behind, and so a sender with a processor.
		for end := time.Now().Add(time.Minute); rounds < 20 || length > 100 && cuts == 0 && time.Now().Before(end); rounds++ {
			stand := pausing(t, l, &collector{})
			for range 40 {
				l.Deliver(numbered(sent, 5, length))
				sent += 5
			}
			stand()
			if v := l.Save(); len(v.Out) > 0 {
				cuts++
			}
			l.Deliver(numbered(1<<40, 1, length)) // after Save: dropped, counted
			conn, l = replaceStream(t, conn, l)
		}
		require.Eventually(t, func() bool { return l.Stats().Queued == 0 }, 20*time.Second, time.Millisecond)
		st := l.Stats()
		require.NoError(t, l.Close())
		got := <-read
		for i := 1; i < len(got); i++ {
			require.Less(t, got[i-1], got[i], "in order, none twice")
		}
		assert.EqualValues(t, len(got), st.ToClientFrames, "length %d", length)
		assert.EqualValues(t, sent+rounds, st.ToClientFrames+st.DropQueueFull, "each frame is counted once")
		t.Logf("frames of %d bytes: %d of %d arrived, %d times one was cut", length, len(got), sent, cuts)
		if length > 100 {
			assert.NotZero(t, cuts, "the test has not met a cut frame")
		}
	}
}

// readNumbers reads the numbered frames of one length until the end; another length ends it as well.
func readNumbers(client *net.UnixConn, length int) (got []uint64) {
	b := make([]byte, frame.PrefixLen+length)
	for {
		if _, err := io.ReadFull(client, b); err != nil {
			return got
		}
		if int(binary.BigEndian.Uint32(b)) != length {
			return append(got, 0) // is not above the one before
		}
		got = append(got, binary.BigEndian.Uint64(b[frame.PrefixLen+frame.MinLen:]))
		time.Sleep(time.Microsecond)
	}
}

// TestResume: an upgrade that does not come about leaves the link as it was.
func TestResume(t *testing.T) {
	daemon, client := pair(t)
	l, err := NewStream(daemon, StreamOptions{QueueSize: smallQueue})
	require.NoError(t, err)
	var h collector
	stand := pausing(t, l, &h)
	_, err = client.Write(wire("one")[:9])
	require.NoError(t, err)
	l.Deliver(numbered(0, 20, 32768)) // more than the socket takes
	stand()
	v := l.Save()
	assert.NotEmpty(t, v.Out)
	l.Resume()
	stand = pausing(t, l, &h)
	_, err = client.Write(wire("one")[9:])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(h.got()) == 1 }, 20*time.Second, time.Millisecond)
	read := make(chan []uint64, 1)
	go func() { read <- readNumbers(client, 32768) }()
	require.Eventually(t, func() bool { return l.Stats().Queued == 0 }, 20*time.Second, time.Millisecond)
	l.Deliver(numbered(99, 1, 32768))
	require.Eventually(t, func() bool { return l.Stats().Queued == 0 }, 20*time.Second, time.Millisecond)
	stand()
	l.Shutdown(DrainOne)
	l.Resume()
	assert.ErrorIs(t, l.Run(&h), ErrShutdown, "a link that is shut down while it is paused goes on to its end")
	st := l.Stats()
	require.NoError(t, l.Close())
	got := <-read
	assert.EqualValues(t, len(got), st.ToClientFrames)
	assert.EqualValues(t, 99, got[len(got)-1])
}

func TestRestoreRefuses(t *testing.T) {
	daemon, _ := pair(t)
	defer daemon.Close()
	long := make([]byte, frame.PrefixLen+frame.MaxLen)
	_, err := RestoreStream(daemon, StreamOptions{}, Saved{In: long})
	assert.Error(t, err)
	_, err = RestoreStream(daemon, StreamOptions{}, Saved{Out: long})
	assert.Error(t, err)
}

// TestDatagramIsHandedOver under load in both directions: nothing from the client is lost, and what is lost for it is counted.
func TestDatagramIsHandedOver(t *testing.T) {
	conn, client := datagramPair(t)
	l, err := NewDatagram(conn, DatagramOptions{QueueSize: smallQueue})
	require.NoError(t, err)
	var h collector
	const frames = 20000
	go func() {
		for i := range frames {
			b := make([]byte, frame.MinLen+8)
			binary.BigEndian.PutUint64(b[frame.MinLen:], uint64(i))
			for {
				if _, err := client.Write(b); err == nil {
					break
				}
			}
		}
	}()
	heard := make(chan int, 1)
	go func() {
		n, b := 0, make([]byte, 2000)
		for {
			_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := client.Read(b); err != nil || binary.BigEndian.Uint64(b[frame.MinLen:]) == 1<<40 {
				heard <- n
				return
			}
			n++
		}
	}()
	sent := 0
	for len(h.got()) < frames {
		stand := pausing(t, l, &h)
		for range 200 {
			l.Deliver(numbered(sent, 5, 1514))
			sent += 5
		}
		stand()
		v := overTheWire(t, l.Save())
		next := again(t, conn)
		require.NoError(t, l.Close())
		conn = next
		l, err = RestoreDatagram(conn, DatagramOptions{QueueSize: smallQueue}, v)
		require.NoError(t, err)
	}
	for i, s := range h.got() {
		require.EqualValues(t, i, binary.BigEndian.Uint64([]byte(s)), "in order, none lost")
	}
	require.Eventually(t, func() bool { return l.Stats().Queued == 0 }, 20*time.Second, time.Millisecond)
	l.Deliver(numbered(1<<40, 1, 1514))
	n := <-heard
	st := l.Stats()
	assert.EqualValues(t, n+1, st.ToClientFrames)
	assert.EqualValues(t, sent+1, st.ToClientFrames+st.DropQueueFull)
	assert.EqualValues(t, frames, st.ToNetFrames)
	t.Logf("%d of %d frames for the client arrived", n, sent)
	require.NoError(t, l.Close())
}

func TestDatagramResume(t *testing.T) {
	conn, client := datagramPair(t)
	l, err := NewDatagram(conn, DatagramOptions{})
	require.NoError(t, err)
	var h collector
	stand := pausing(t, l, &h)
	stand()
	l.Save()
	_, err = client.Write(frameOf("while it stands"))
	require.NoError(t, err)
	l.Resume()
	stand = pausing(t, l, &h)
	require.Eventually(t, func() bool { return len(h.got()) == 1 }, 20*time.Second, time.Millisecond)
	l.Deliver(numbered(7, 1, 100))
	require.NoError(t, client.SetReadDeadline(time.Now().Add(20*time.Second)))
	b := make([]byte, 200)
	_, err = client.Read(b)
	require.NoError(t, err)
	assert.EqualValues(t, 7, binary.BigEndian.Uint64(b[frame.MinLen:]))
	stand()
	require.NoError(t, l.Close())
}
