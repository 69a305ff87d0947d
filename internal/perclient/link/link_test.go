// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// smallQueue is the least that --queue-size allows, in bytes.
const smallQueue = 64 << 10

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// makeRoom gives a socket buffers of Linux's size. macOS's own are 8 KiB for a stream, and for datagrams 2 KiB, no longer one can be
// sent, and 4 KiB (net.local in XNU's bsd/kern/uipc_usrreq.c).
func makeRoom(t testing.TB, fd int) {
	t.Helper()
	if runtime.GOOS != "darwin" {
		return
	}
	for _, option := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 208<<10))
	}
}

// pair is a connected pair of stream sockets, both non-blocking: the daemon's end and the client's.
func pair(t testing.TB) (daemon, client *net.UnixConn) {
	t.Helper()
	return socketpair(t, unix.SOCK_STREAM)
}

func socketpair(t testing.TB, kind int) (daemon, client *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	require.NoError(t, err)
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		require.NoError(t, unix.SetNonblock(fd, true))
		makeRoom(t, fd)
		f := os.NewFile(uintptr(fd), "socketpair")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		conns[i] = c.(*net.UnixConn)
	}
	t.Cleanup(func() { _ = conns[1].Close() })
	return conns[0], conns[1]
}

// collector is a Handler that keeps the payload of each frame.
type collector struct {
	mu     sync.Mutex
	frames []string
	calls  int
}

func (c *collector) Frames(b frame.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	for it := b.Iter(); it.Next(); {
		c.frames = append(c.frames, string(it.Frame()[frame.MinLen:]))
	}
}

func (c *collector) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.frames...)
}

// wire is one frame with the given payload.
func wire(payload string) []byte {
	return frame.Append(nil, append(make([]byte, frame.MinLen), payload...))
}

// numbered is a batch of n frames of the given length that carry consecutive numbers.
func numbered(first, n, length int) frame.Batch {
	var buf []byte
	for i := range n {
		f := make([]byte, length)
		binary.BigEndian.PutUint64(f[frame.MinLen:], uint64(first+i))
		buf = frame.Append(buf, f)
	}
	return frame.NewBatch(buf, n)
}

// running is a link whose Run is under way.
type running struct {
	Link
	collector
	err  error
	done chan struct{}
}

// newStream is a link that does not run yet, and its client.
func newStream(t *testing.T) (s *stream, client *net.UnixConn) {
	t.Helper()
	daemon, client := pair(t)
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	return s, client
}

func run(t *testing.T, l Link) *running {
	t.Helper()
	r := &running{Link: l, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = l.Run(&r.collector)
	}()
	t.Cleanup(func() {
		l.Shutdown(DrainOne)
		<-r.done
		_ = l.Close()
	})
	return r
}

func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(20 * time.Second):
		require.Fail(t, "Run did not return")
		return nil
	}
}

func TestRunHandsOnFrames(t *testing.T) {
	s, client := newStream(t)
	r := run(t, s)
	whole := append(append(wire("one"), wire("two")...), wire("three")...)
	for i := range whole { // a byte at a time
		_, err := client.Write(whole[i : i+1])
		require.NoError(t, err)
	}
	_, err := client.Write(append(append([]byte{0, 0, 0, 0}, 0, 0, 0, 1, 'x'), wire("four")...))
	require.NoError(t, err)
	require.NoError(t, client.Close())
	assert.ErrorIs(t, r.wait(t), io.EOF)
	assert.Equal(t, []string{"one", "two", "three", "four"}, r.got())
	st := r.Stats()
	assert.Equal(t, uint64(4), st.ToNetFrames)
	assert.Equal(t, uint64(2), st.DropRunt)
	assert.Equal(t, uint64(4*frame.MinLen+len("onetwothreefour")), st.ToNetBytes)
}

// TestEveryCut reads frames in two pieces, with any part of a frame behind whole ones.
func TestEveryCut(t *testing.T) {
	s, client := newStream(t)
	whole := append(append(wire("one"), wire("two")...), wire("three")...)
	for cut := range whole {
		var c collector
		for _, part := range [][]byte{whole[:cut], whole[cut:]} {
			_, err := client.Write(part)
			require.NoError(t, err)
			for again := false; !again; {
				again, err = s.readOnce(s.fd, &c)
				require.NoError(t, err)
			}
		}
		assert.Equal(t, []string{"one", "two", "three"}, c.got(), cut)
	}
	require.NoError(t, s.Close())
}

// TestNoReadBufferIsLeft of a client that ends within a frame.
func TestNoReadBufferIsLeft(t *testing.T) {
	for name, end := range map[string]func(Link, *net.UnixConn){
		"by itself": func(_ Link, c *net.UnixConn) { _ = c.Close() },
		"shut down": func(l Link, _ *net.UnixConn) { l.Shutdown(DrainOne) },
	} {
		s, client := newStream(t)
		_, err := client.Write(wire("half a frame")[:10])
		require.NoError(t, err)
		end(s, client)
		require.Error(t, s.Run(&collector{}), name)
		assert.Zero(t, cap(s.buf), name)
		require.NoError(t, s.Close())
	}
}

func TestLostFramingEndsTheLink(t *testing.T) {
	for name, prefix := range map[string][]byte{
		"69633": {0, 1, 0x10, 1}, "0x41414141": []byte("AAAA"), "0xffffffff": {255, 255, 255, 255},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := newStream(t)
			r := run(t, s)
			_, err := client.Write(append(append(wire("before"), prefix...), "rest"...))
			require.NoError(t, err)
			assert.ErrorIs(t, r.wait(t), frame.ErrTooLong)
			assert.Equal(t, []string{"before"}, r.got())
			require.NoError(t, r.Close())
			n, err := client.Read(make([]byte, 1))
			assert.Zero(t, n)
			assert.ErrorIs(t, err, io.EOF, "an orderly end, no reset")
		})
	}
}

// TestRestOfACutFrame is written although nothing follows, and the memory for it given back.
func TestRestOfACutFrame(t *testing.T) {
	s, client := newStream(t)
	require.NoError(t, client.SetReadDeadline(time.Now().Add(time.Minute)))
	cut := 0
	for length := frame.MaxLen; cut == 0 && length > 69_000; length-- { // Linux cuts none below 64 KiB, and it may be full between two
		for b, ok := chunks.Get(); ok; b, ok = chunks.Get() {
			unmap(b)
		}
		sent := 0
		for s.Stats().Queued == 0 {
			s.Deliver(numbered(0, 1, length))
			sent += frame.PrefixLen + length
		}
		cut = s.Stats().Queued % (frame.PrefixLen + length)
		_, err := io.ReadFull(client, make([]byte, sent))
		require.NoError(t, err)
		settled(t, s.out)
		b, ok := chunks.Get()
		require.True(t, ok)
		chunks.Put(b)
	}
	assert.NotZero(t, cut, "none was cut")
	require.NoError(t, s.Close())
}

func TestDeliverToAClientThatLeft(t *testing.T) {
	for name, unread := range map[string]int{"all read": 0, "a frame unread, which is a reset": 1} {
		s, client := newStream(t)
		s.Deliver(numbered(0, unread, 100))
		require.NoError(t, client.Close())
		s.Deliver(numbered(0, 3, 100))
		assert.Equal(t, uint64(3), s.Stats().DropClosed)
		assert.Equal(t, io.EOF, s.Run(&collector{}), name)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		s.Deliver(numbered(0, 2, 100))
		assert.Equal(t, uint64(5), s.Stats().DropClosed)
	}
}

// inTime calls try until it says that it is content, for it measures times, which a busy machine makes longer.
func inTime(t *testing.T, try func(t *testing.T) bool) {
	t.Helper()
	for range 30 {
		if try(t) || t.Failed() {
			return
		}
	}
	require.Fail(t, "never in time")
}

func TestShutdownWaitsForABlockedWriter(t *testing.T) { inTime(t, waitsForABlockedWriter) }

// waitsForABlockedWriter is false if the client had no processor for so long that its silence was one.
func waitsForABlockedWriter(t *testing.T) (told bool) {
	s, client := newStream(t)
	r := run(t, s)
	// The client goes on writing for 120 ms, so that silence never lasts 50 ms before.
	began := time.Now()
	last, silence := began, time.Duration(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 6 {
			time.Sleep(20 * time.Millisecond)
			now := time.Now()
			_, err := client.Write(wire("x"))
			silence = max(silence, time.Since(last))
			if err != nil {
				return
			}
			last = now
		}
	}()
	sched := DrainStop
	sched.Settle = 0 // it would count as silence
	r.Shutdown(sched)
	assert.ErrorIs(t, r.wait(t), ErrShutdown)
	over := time.Now()
	<-done
	assert.Empty(t, r.got(), "what comes after the shutdown is discarded")
	if silence >= DrainStop.Quiet {
		return false
	}
	assert.GreaterOrEqual(t, over.Sub(last), DrainStop.Quiet)
	assert.GreaterOrEqual(t, over.Sub(began), 120*time.Millisecond+DrainStop.Quiet)
	return true
}

// TestShutdownSchedule: each time of the schedule ends the drain, if the others never would. Without a boundary it takes the later ones.
func TestShutdownSchedule(t *testing.T) {
	const soon, never = 20 * time.Millisecond, time.Hour
	half := wire("half a frame")
	for name, c := range map[string]struct {
		before []byte // is written before the shutdown
		sched  DrainSchedule
	}{
		"silent":                    {nil, DrainSchedule{Quiet: soon, Boundary: never, Empty: never, Hard: never}},
		"at a boundary":             {half, DrainSchedule{Quiet: never, Boundary: soon, Empty: never, Hard: never}},
		"half a frame":              {half[:10], DrainSchedule{Empty: soon, Hard: never}},
		"half a prefix":             {half[:2], DrainSchedule{Empty: soon, Hard: never}},
		"half a frame, and no hope": {half[:10], DrainSchedule{Empty: never, Hard: soon}},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := newStream(t)
			_, err := client.Write(c.before)
			require.NoError(t, err)
			began := time.Now()
			s.Shutdown(c.sched)
			assert.ErrorIs(t, run(t, s).wait(t), ErrShutdown)
			assert.GreaterOrEqual(t, time.Since(began), soon)
		})
	}
}

func TestDeliverToAClientThatStopsReading(t *testing.T) {
	s, client := newStream(t)
	r := run(t, s)
	require.NoError(t, client.CloseRead())
	r.Deliver(numbered(0, 1, 100))
	assert.ErrorIs(t, r.wait(t), unix.EPIPE)
}

func TestIdleClientsHoldNoReadBuffer(t *testing.T) {
	s, client := newStream(t)
	r := run(t, s)
	_, err := client.Write(wire("x"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(r.got()) == 1 }, 20*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { // it is given back after the frame was
		b, ok := readBufs.Get()
		if ok {
			readBufs.Put(b)
		}
		return ok
	}, 20*time.Second, time.Millisecond)
}

func TestLastFramesOfAClientThatLeft(t *testing.T) {
	daemon, client := pair(t)
	_, err := client.Write(numbered(0, 50, 1514).Bytes())
	require.NoError(t, err)
	require.NoError(t, client.Close())
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	s.Deliver(numbered(0, 1, 1514)) // another client's frame is quicker than our reader, and fails
	var c collector
	assert.ErrorIs(t, s.Run(&c), io.EOF)
	assert.Len(t, c.got(), 50)
	require.NoError(t, s.Close())
}

// panicking is a Handler with a bug.
type panicking struct{}

func (panicking) Frames(frame.Batch) { panic("made by the test") }

func TestDrainAfterAPanicWithAFullBuffer(t *testing.T) { inTime(t, drainsAfterAPanic) }

// drainsAfterAPanic is false if the client had no processor while the daemon drained.
func drainsAfterAPanic(t *testing.T) bool {
	s, client := newStream(t)
	require.NoError(t, client.SetWriteBuffer(1<<20))
	wrote := make(chan error, 1)
	batch := numbered(0, 2*readBufLen/1518, 1514)
	go func() {
		_, err := client.Write(batch.Bytes())
		wrote <- err
	}()
	time.Sleep(50 * time.Millisecond) // more than a buffer is there
	assert.Panics(t, func() { _ = s.Run(panicking{}) })
	s.Drain()
	s.Deliver(numbered(0, 1, 100))
	assert.EqualValues(t, 1, s.Stats().DropClosed)
	err := <-wrote // none: everything was read
	require.NoError(t, s.Close())
	_, end := client.Read(make([]byte, 1)) // no reset
	return err == nil && errors.Is(end, io.EOF)
}

// TestDrainAfterItsTime is a process that was stopped, or had no processor, until the time for the drain was over.
func TestDrainAfterItsTime(t *testing.T) {
	s, client := newStream(t)
	_, err := client.Write(numbered(0, 50, 1514).Bytes())
	require.NoError(t, err)
	s.Shutdown(DrainSchedule{Hard: time.Nanosecond})
	s.Deliver(numbered(0, 2, 100))
	assert.EqualValues(t, 2, s.Stats().DropClosed, "from the shutdown on")
	s.Interrupt()
	var c collector
	assert.ErrorIs(t, s.Run(&c), ErrShutdown, "that came first")
	assert.Empty(t, c.got())
	require.NoError(t, s.Close())
	_, err = client.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "what was there was read, so this is no reset")
}

// feeding is a Handler whose client sends a frame for each that came, so that there is always one more, and that calls f at the tenth.
type feeding struct {
	client *net.UnixConn
	more   []byte
	n      int
	f      func()
}

func (h *feeding) Frames(frame.Batch) {
	if h.n++; h.n == 10 {
		h.f()
	}
	if h.n < 1000 { // else the link has not ended, and the test fails
		_, _ = h.client.Write(h.more)
	}
}

// holding is a Handler whose client is to be read less from the first frames on.
type holding struct {
	s    *stream
	lens []int
	at   []time.Time
}

func (h *holding) Full() bool { return true }

func (h *holding) Frames(b frame.Batch) {
	h.s.Hold(h)
	h.lens, h.at = append(h.lens, len(b.Bytes())), append(h.at, time.Now())
}

// TestHold: a client that is held is read in small pieces, loses nothing, and its link ends as any other.
func TestHold(t *testing.T) {
	s, client := newStream(t)
	go func() {
		_, _ = client.Write(numbered(0, 600, 1000).Bytes())
		_ = client.Close()
	}()
	h := holding{s: s}
	assert.ErrorIs(t, s.Run(&h), io.EOF)
	assert.EqualValues(t, 600, s.Stats().ToNetFrames)
	assert.Greater(t, len(h.lens), readBufLen/heldLen)
	for i := range h.lens[1:] {
		assert.LessOrEqual(t, h.lens[i+1], heldLen+1000)
		assert.GreaterOrEqual(t, h.at[i+1].Sub(h.at[i]), holds*holdTime)
	}
}

// TestRunEndsUnderAFlood: a client that never pauses does not keep its link, and one that loses the framing just then is told from others.
func TestRunEndsUnderAFlood(t *testing.T) {
	broken := errors.New("made by the test")
	one := numbered(0, 1, 100).Bytes()
	lost := append(numbered(0, 10, 100).Bytes(), "AAAA"...)
	for name, c := range map[string]struct {
		end         func(*stream)
		first, more []byte
		want        error
		most        int // frames
	}{
		"interrupted":                      {(*stream).Interrupt, one, one, ErrDetached, 10},
		"shut down":                        {func(s *stream) { s.Shutdown(DrainOne) }, one, one, ErrShutdown, 10},
		"a send failed":                    {func(s *stream) { s.fail(broken) }, one, one, broken, 10 + lastReads},
		"interrupted, and framing is lost": {(*stream).Interrupt, lost, nil, frame.ErrTooLong, 10},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := newStream(t)
			h := &feeding{client: client, more: c.more, f: func() { c.end(s) }}
			_, err := client.Write(c.first)
			require.NoError(t, err)
			assert.ErrorIs(t, s.Run(h), c.want)
			assert.LessOrEqual(t, h.n, c.most)
			require.NoError(t, s.Close())
		})
	}
}

func TestGone(t *testing.T) {
	leave := func(_ *stream, c *net.UnixConn) { _ = c.Close() }
	for name, what := range map[string]func(*stream, *net.UnixConn){
		"it has left":              leave,
		"it left something unread": func(s *stream, c *net.UnixConn) { s.Deliver(numbered(0, 1, 100)); leave(s, c) },
		"the link is closed":       func(s *stream, _ *net.UnixConn) { _ = s.Close() },
	} {
		s, client := newStream(t)
		_, err := client.Write([]byte{0})
		require.NoError(t, err)
		assert.False(t, s.Gone(), name)
		_, err = s.conn.Read(make([]byte, 1))
		require.NoError(t, err)
		assert.False(t, s.Gone(), name)
		what(s, client)
		assert.True(t, s.Gone(), name)
		require.NoError(t, s.Close())
	}
}

// TestCloseWhileTheClientIsBehind waits for nothing, and drops what waited.
func TestCloseWhileTheClientIsBehind(t *testing.T) {
	daemon, _ := pair(t)
	s, err := NewStream(daemon, StreamOptions{})
	require.NoError(t, err)
	for s.Stats().Queued == 0 {
		s.Deliver(numbered(0, 10, 1514))
	}
	stalls(t, s.Stats, 10*time.Millisecond) // the drainer waits
	began := time.Now()
	require.NoError(t, s.conn.SetWriteDeadline(began.Add(20*time.Millisecond)))
	WaitWritable(s.rc)
	assert.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond, "there is no room")
	require.NoError(t, s.conn.SetWriteDeadline(time.Time{}))
	require.NoError(t, s.Close())
	assert.Zero(t, s.Stats().Queued)
	_, err = NewStream(daemon, StreamOptions{})
	assert.ErrorIs(t, err, net.ErrClosed)
}
