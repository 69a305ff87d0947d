// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A Stream is a client on a stream socket, speaking the format of package frame. It is a frame.Sink.
//
//	open --Shutdown or a lost framing--> draining: input is discarded, output dropped --Run returns--> Close --> closed
//
// Run belongs to one goroutine. Deliver and the other methods may be called from any.
type Stream struct {
	conn *net.UnixConn
	rc   syscall.RawConn
	fd   int // of conn, valid while mu is held and closed is false

	rd       reader
	shutdown atomic.Pointer[DrainSchedule]
	failure  atomic.Pointer[error] // of a write, tells why shutdown was set
	paused   atomic.Bool

	limit    int  // of out, bytes
	shared   bool // see StreamOptions
	queueAll bool // every write is left to the drainer, because it may wait

	// mu guards the output side. It covers one non-blocking write, never a blocking one.
	mu     sync.Mutex
	out    queue
	flight int  // bytes the drainer has taken from out and not yet written
	owed   int  // bytes at the front of out that are the rest of a frame
	busy   bool // a drainer runs: everything goes through out, so that the order is kept
	parked bool // saved: nothing is written and no frame is taken until Resume
	closed bool // no write any more
	ended  bool // Shutdown was called: frames are dropped
	stats  Stats

	moving  progress
	drainFn func() // drainOut, made once so that starting it allocates nothing
	drainer sync.WaitGroup
}

// StreamOptions set up a Stream.
type StreamOptions struct {
	QueueSize int // bytes; 0 = DefaultQueueSize

	// Shared: another process may hold this very end, so it may clear O_NONBLOCK or shut the socket down at any time. That
	// costs nobody else anything, and Close shuts the connection down, since closing one of several copies does not end it.
	Shared bool
}

// NewStream takes over conn, which must be an unblocked stream socket. Its buffers are enlarged if the system allows.
func NewStream(conn *net.UnixConn, o StreamOptions) (*Stream, error) {
	if o.QueueSize == 0 {
		o.QueueSize = DefaultQueueSize
	}
	rc, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("get descriptor of client socket: %w", err)
	}
	s := &Stream{conn: conn, rc: rc, limit: o.QueueSize, shared: o.Shared, queueAll: o.Shared && sendMayWait}
	s.drainFn = s.drainOut
	err = rc.Control(func(fd uintptr) {
		s.fd = int(fd)
		enlarge(s.fd, unix.SO_SNDBUF)
		enlarge(s.fd, unix.SO_RCVBUF)
	})
	if err != nil {
		return nil, fmt.Errorf("get descriptor of client socket: %w", err)
	}
	return s, nil
}

// enlarge asks for a socket buffer of sockBufLen. A refusal costs speed only, so it is ignored.
func enlarge(fd, option int) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err == nil && n >= 2*sockBufLen {
		return
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, sockBufLen)
}

// Fd is the number of the client's descriptor, for logs only.
func (s *Stream) Fd() int { return s.fd }

// MaxFrame implements frame.Sink.
func (s *Stream) MaxFrame() int { return frame.MaxStreamLen }

// Stats are the counters so far.
func (s *Stream) Stats() Stats {
	s.mu.Lock()
	st := s.stats
	st.Queued = s.out.size + s.flight
	st.Stalled = s.moving.stalled(st.Queued > 0)
	s.mu.Unlock()
	st.ToNetFrames, st.ToNetBytes = s.rd.frames.Load(), s.rd.bytes.Load()
	st.DropRunt = s.rd.runts.Load()
	return st
}

// Gone reports whether the client has already closed its end, without waiting and without taking anything from its input.
func (s *Stream) Gone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	n, _, err := unix.Recvfrom(s.fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == nil && n == 0 || err == unix.ECONNRESET // it left frames unread
}

// Shutdown makes Run discard what the client still sends, by the times of sched, and return ErrShutdown. Frames for the
// client are dropped from now on; what is queued still goes out meanwhile. A second call with a longer schedule than the
// first changes nothing.
func (s *Stream) Shutdown(sched DrainSchedule) {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	if s.shutdown.CompareAndSwap(nil, &sched) {
		// A deadline in the past wakes a reader that waits; one that reads looks at shutdown after each read.
		_ = s.conn.SetReadDeadline(past)
	}
}

// fail shuts the link down because a write failed: the client does not read any more.
func (s *Stream) fail(err error) {
	s.failure.CompareAndSwap(nil, &err)
	sched := DrainOne
	if s.shutdown.CompareAndSwap(nil, &sched) {
		_ = s.conn.SetReadDeadline(past)
	}
}

// Close ends the link at once. Run and the drainer have ended, or end, and no write happens after it returns. Callers let
// Run return first, since that is what drains the client.
func (s *Stream) Close() error {
	s.mu.Lock()
	s.closed, s.ended = true, true
	s.mu.Unlock()
	if s.shared {
		// It fails when the client has gone or has shut it down itself.
		_ = s.rc.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // ends a write that waits
	}
	err := s.conn.Close() // wakes the drainer
	s.drainer.Wait()
	s.mu.Lock()
	s.out.drop()
	s.mu.Unlock()
	return err
}

// Deliver writes b to the client if that is possible at once. What does not fit, or comes while earlier frames still wait,
// is queued up to the queue's size and dropped above it. See frame.Sink.
func (s *Stream) Deliver(b frame.Batch) {
	defer s.deliverPanicked() // the caller serves another client
	s.mu.Lock()
	defer s.mu.Unlock()
	faults.In("link.deliver", b.Bytes())
	if s.ended {
		s.stats.DropClosed += uint64(b.Len())
		return
	}
	if s.parked {
		s.stats.DropQueueFull += uint64(b.Len())
		return
	}
	if s.busy {
		s.enqueue(b.Bytes(), b.Len())
		return
	}
	if s.queueAll {
		s.owe(b, 0)
		return
	}
	buf := b.Bytes()
	n, err := writeNow(s.fd, buf)
	switch {
	case n == len(buf):
		s.stats.ToClientFrames += uint64(b.Len())
		s.stats.ToClientBytes += uint64(b.DataLen())
	case err != nil && err != unix.EAGAIN && err != unix.ENOBUFS:
		s.ended = true
		s.stats.DropClosed += uint64(b.Len())
		s.fail(fmt.Errorf("write to client: %w", err))
	default:
		s.owe(b, n)
	}
}

// deliverPanicked turns a panic in Deliver, which defers it, into the end of this client.
func (s *Stream) deliverPanicked() {
	if r := recover(); r != nil {
		s.mu.Lock()
		s.ended = true
		s.mu.Unlock()
		s.fail(fmt.Errorf("panic while writing: %v\n%s", r, debug.Stack()))
	}
}

// reason is why Run ends, given the error of the read loop.
func (s *Stream) reason(err error) error {
	if f := s.failure.Load(); f != nil {
		return *f
	}
	if s.shutdown.Load() != nil && (err == nil || os.IsTimeout(err)) {
		return ErrShutdown
	}
	return err
}
