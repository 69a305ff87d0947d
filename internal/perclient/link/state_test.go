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
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// overTheWire is v as the next image gets it: with a descriptor in place of the connection, which is closed.
func overTheWire(t *testing.T, v State) (out State) {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &out))
	out.Socket.FD, err = unix.FcntlInt(uintptr(v.Socket.FD), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	v.Socket.Close()
	return out
}

// serving runs l until stop is called, which interrupts it.
func serving(t *testing.T, l Link, h Handler) (stop func()) {
	t.Helper()
	over := make(chan error, 1)
	go func() { over <- l.Run(h) }()
	return func() {
		t.Helper()
		l.Interrupt()
		select {
		case err := <-over:
			require.ErrorIs(t, err, ErrDetached)
		case <-time.After(20 * time.Second):
			require.Fail(t, "Run does not end")
		}
	}
}

// replaced is the link of the client of l, in this process or in the next image.
func replaced(t *testing.T, l *stream, sameProcess bool) *stream {
	t.Helper()
	v := l.Detach()
	if !sameProcess {
		v = overTheWire(t, v)
	}
	s, err := AttachStream(StreamOptions{QueueSize: smallQueue}, v)
	require.NoError(t, err)
	return s
}

// TestStreamIsDetachedWithinFrames cuts the link at every kind of place inside of a frame from the client.
func TestStreamIsDetachedWithinFrames(t *testing.T) {
	daemon, client := pair(t)
	l, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	var h collector
	payload := "a frame that comes in two pieces"
	b := wire(payload)
	for cut := range len(b) + 1 {
		stop := serving(t, l, &h)
		_, err := client.Write(b[:cut])
		require.NoError(t, err)
		if cut == len(b) {
			require.Eventually(t, func() bool { return len(h.got()) == cut+1 }, 20*time.Second, time.Millisecond)
		}
		stop()
		l = replaced(t, l, cut%2 == 0)
		_, err = client.Write(b[cut:])
		require.NoError(t, err)
		stop = serving(t, l, &h)
		require.Eventually(t, func() bool { return len(h.got()) == cut+1 }, 20*time.Second, time.Millisecond, "cut at %d", cut)
		stop()
		l = replaced(t, l, cut%3 == 0)
	}
	for _, got := range h.got() {
		assert.Equal(t, payload, got)
	}
	assert.EqualValues(t, len(b)+1, l.Stats().ToNetFrames, "counters go with it")
	l.Shutdown(DrainOne)
	assert.ErrorIs(t, l.Run(&h), ErrShutdown)
	require.NoError(t, l.Close())
}

// TestStreamIsDetachedWhileItsClientIsBehind: the client reads whole frames in their order, some of them lost and counted,
// whatever part of one was written.
func TestStreamIsDetachedWhileItsClientIsBehind(t *testing.T) {
	for _, length := range []int{frame.MinLen + 8, 1514, 32768} {
		daemon, client := pair(t)
		l, err := NewStream(daemon, StreamOptions{QueueSize: smallQueue})
		require.NoError(t, err)
		read := make(chan []uint64, 1)
		go func() { read <- readNumbers(client, length) }()
		var cuts int
		sent := 0
		rounds := 0
		// A cut takes a client that is behind, and so a sender with a processor.
		for end := time.Now().Add(time.Minute); rounds < 20 || length > 100 && cuts == 0 && time.Now().Before(end); rounds++ {
			stop := serving(t, l, &collector{})
			for range 40 {
				l.Deliver(numbered(sent, 5, length))
				sent += 5
			}
			stop()
			v := l.Detach()
			if len(v.Out) > 0 {
				cuts++
			}
			if rounds%2 == 0 {
				v = overTheWire(t, v)
			}
			l, err = AttachStream(StreamOptions{QueueSize: smallQueue}, v)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return l.Stats().Queued == 0 }, 20*time.Second, time.Millisecond)
		st := l.Stats()
		require.NoError(t, l.Close())
		got := <-read
		for i := 1; i < len(got); i++ {
			require.Less(t, got[i-1], got[i], "in order, none twice")
		}
		assert.EqualValues(t, len(got), st.ToClientFrames, "length %d", length)
		assert.EqualValues(t, sent, st.ToClientFrames+st.DropQueueFull, "each frame is counted once")
		t.Logf("frames of %d bytes: %d of %d arrived, %d times one was cut", length, len(got), sent, cuts)
		if length > 100 {
			assert.NotZero(t, cuts, "the test has not met a cut frame")
		}
	}
}

// TestDatagramIsDetached: what its client has not taken is lost, and counted once.
func TestDatagramIsDetached(t *testing.T) {
	const frames = 1000 // more than the socket holds, and less than the queue
	d, client := datagram(t)
	stop := serving(t, d, &collector{})
	d.Deliver(numbered(0, frames, 1514))
	stop()
	d, err := AttachDatagram(DatagramOptions{}, overTheWire(t, d.Detach()))
	require.NoError(t, err)
	came := uint64(len(received(t, client)))
	assert.Less(t, came, uint64(frames))
	d.Deliver(numbered(0, 1, 60))
	require.Eventually(t, func() bool { return len(received(t, client)) == 1 }, 20*time.Second, time.Millisecond)
	assert.Equal(t, Stats{ToClientFrames: came + 1, ToClientBytes: came*1514 + 60, DropQueueFull: frames - came}, d.Stats())
	require.NoError(t, d.Close())
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

func TestAttachRefuses(t *testing.T) {
	long := make([]byte, frame.PrefixLen+frame.MaxLen)
	for name, v := range map[string]State{"too much came": {In: long}, "too much is owed": {Out: long}} {
		daemon, client := pair(t)
		v.Socket = Holding(daemon)
		_, err := AttachStream(StreamOptions{}, v)
		assert.Error(t, err, name)
		_, err = client.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF, "the client is not kept: %s", name)
	}
	_, err := AttachStream(StreamOptions{}, State{})
	assert.ErrorContains(t, err, "there is none")
	_, err = AttachDatagram(DatagramOptions{}, State{Socket: Descriptor{FD: 1 << 20}})
	assert.Error(t, err)
}
