// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// lookAgain is how long a drain waits before it looks for more. What a client writes meanwhile waits in the socket's buffer.
const lookAgain = 5 * time.Millisecond

// A stream is a client on a stream socket, speaking the format of package frame. It is a frame.Sink.
//
//	open --Shutdown or a lost framing--> draining: input is discarded, output dropped --Run returns--> Close --> closed
//
// Run belongs to one goroutine. Deliver and the other methods may be called from any.
type stream struct {
	socket
	pipe streamPipe

	buf  []byte // nil while nothing is readable and no frame has partly arrived
	have int    // bytes in buf: the begin of a frame that has not fully arrived
	lost bool   // the framing is lost, there is no boundary any more
}

// StreamOptions set up a stream.
type StreamOptions struct {
	QueueSize int // bytes; 0 = DefaultQueueSize

	// Shared: another process may hold this very end, so it may clear O_NONBLOCK or shut the socket down at any time. That
	// costs no other client anything, and Close shuts the connection down, since closing one of several copies does not end it.
	Shared bool
}

// NewStream takes over conn, which must be an unblocked stream socket. Its buffers are enlarged if the system allows.
func NewStream(conn *net.UnixConn, o StreamOptions) (*stream, error) {
	s := &stream{socket: socket{maxFrame: frame.MaxStreamLen, shared: o.Shared}}
	if err := s.init(conn, s, proto.Stream); err != nil {
		return nil, err
	}
	s.pipe.fd, s.pipe.rc, s.pipe.shared = s.fd, s.rc, o.Shared
	s.out = NewOutbox(&s.pipe, o.QueueSize, func(err error) { s.fail(fmt.Errorf("write to client: %w", err)) })
	s.out.cut, s.out.queueAll, s.out.patience = &s.pipe, o.Shared && sendMayWait, 0
	return s, nil
}

// Gone reports whether the client has already closed its end, without waiting and without taking anything from its input.
func (s *stream) Gone() bool {
	gone := false
	closed := s.rc.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err == unix.ECONNRESET // it left frames unread
	})
	return gone || closed != nil
}

// Detach implements Link.
func (s *stream) Detach() State {
	v := s.socket.Detach()
	v.In, v.Out = slices.Clone(s.buf[:s.have]), slices.Clone(s.pipe.rest)
	s.have = 0
	s.release()
	s.pipe.forget()
	return v
}

// acquire gets the read buffer.
func (s *stream) acquire() (err error) {
	if s.buf != nil {
		return nil
	}
	if s.buf, err = readBufs.get(); err != nil {
		return fmt.Errorf("%w: %w", errNoMemory, err)
	}
	return nil
}

// release implements source.
func (s *stream) release() {
	if s.buf != nil && s.have == 0 {
		readBufs.Put(s.buf)
		s.buf = nil
	}
}

// readOnce implements source.
func (s *stream) readOnce(fd int, h Handler) (again bool, err error) {
	if err := s.acquire(); err != nil {
		return false, err
	}
	room := s.buf[s.have:]
	if s.slow {
		room = room[:min(len(room), heldLen)]
	}
	n, err := readNow(fd, room, s.shared)
	switch {
	case err == unix.EAGAIN:
		return true, nil
	case err == unix.EINTR:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read from client: %w", err)
	case n == 0:
		s.have = 0
		return false, io.EOF
	}
	s.have += n
	return false, s.walk(h)
}

// walk hands on the whole frames in the buffer and moves what is left of it to the front. Without a framing it is all discarded.
func (s *stream) walk(h Handler) error {
	if s.lost {
		s.have = 0
	}
	done := 0
	for {
		b, used, runts, err := frame.Scan(s.buf[done:s.have])
		s.handOn(b, runts, 0, h)
		if err != nil {
			n := binary.BigEndian.Uint32(s.buf[done:])
			s.have, s.lost = 0, true
			return fmt.Errorf("client announced a frame of %d bytes (0x%08x): %w", n, n, err)
		}
		if used == 0 {
			break
		}
		done += used
	}
	if done > 0 {
		s.have = copy(s.buf, s.buf[done:s.have])
	}
	return nil
}

// discard implements source: it reads until sched allows to close. It looks every now and then instead of waiting, so that a process
// that was held up decides by what is there and not by a time that is over.
func (s *stream) discard(sched DrainSchedule) (eof bool) {
	defer func() { s.have = 0 }()
	_ = s.walk(nil) // a handler that panicked left a buffer that may be full
	start := time.Now()
	last := start // when something was read
	for {
		none, err := s.read(nil, 1)
		now := time.Now()
		switch {
		case errors.Is(err, frame.ErrTooLong): // from now on there is no boundary
		case errors.Is(err, net.ErrClosed), errors.Is(err, errNoMemory):
			return false
		case err != nil:
			return !s.lost
		}
		if !none {
			last = now
		}
		switch t := now.Sub(start); {
		case t >= sched.Hard, none && sched.mayClose(t, now.Sub(last), s.have == 0):
			s.refuse(sched.Settle)
			return false
		case none:
			time.Sleep(lookAgain)
		}
	}
}

// refuse ends the drain where the system can have the client's writes fail: they then return EPIPE at once instead of
// EAGAIN, so that QEMU drops its frames and waits for nothing when it sees the end that follows. A client that found its
// buffer full just before has settle to notice: silence alone says nothing about it on a machine that is short of
// processors.
func (s *stream) refuse(settle time.Duration) {
	refused := false
	if err := s.rc.Control(func(fd uintptr) { refused = refuseWrites(int(fd)) }); err != nil || !refused {
		return
	}
	// What was written before, and then the end: nothing comes any more and no read waits. Closing with something unread is a reset.
	s.lost = true
	_, _ = s.read(nil, lastReads)
	time.Sleep(settle)
}

// mayClose reports whether a link with nothing to read may be closed so long after the begin and after the last read. boundary:
// everything so far ends with a whole frame.
func (d DrainSchedule) mayClose(begun, last time.Duration, boundary bool) bool {
	return begun >= d.Empty || boundary && (begun >= d.Boundary || last >= d.Quiet)
}

// A streamPipe is a pipe into a stream socket. A write may cut a frame. The frame counts as taken then, and what is left of it
// is owed to the client, however full its queue is: without it the client would lose the framing.
type streamPipe struct {
	fd     int
	rc     syscall.RawConn
	shared bool         // the descriptor
	rest   []byte       // what is owed, the begin of a chunk; nil: nothing
	left   atomic.Int64 // len(rest), for the Outbox, which asks while the drainer sends
}

// Send implements pipe. Only what is owed may be left when all of b is taken.
func (p *streamPipe) Send(b frame.Batch) (taken int, err error) {
	if p.rest != nil {
		n, err := p.write(p.rest)
		p.owe(p.rest[n:])
		if p.rest != nil || b.Len() == 0 {
			return 0, err
		}
	}
	buf := b.Bytes()
	n, err := p.write(buf)
	if n == len(buf) {
		return b.Len(), nil
	}
	it := b.Iter()
	for it.Next() && it.End() <= n {
		taken++
	}
	if n > it.Offset() {
		if p.rest, _ = chunks.get(); p.rest == nil {
			return taken, fmt.Errorf("keep the rest of a frame: %w", errNoMemory)
		}
		p.owe(buf[n:it.End()])
		taken++
	}
	return taken, err
}

// owe keeps rest, of a frame that was cut, in the chunk at hand.
func (p *streamPipe) owe(rest []byte) {
	p.rest = p.rest[:copy(p.rest[:cap(p.rest)], rest)]
	p.left.Store(int64(len(rest)))
	if len(rest) == 0 {
		p.forget()
	}
}

// forget gives up what is owed.
func (p *streamPipe) forget() {
	if p.rest != nil {
		chunks.Put(p.rest)
	}
	p.rest = nil
	p.left.Store(0)
}

// owed is how many bytes of a frame that was cut are left to write.
func (p *streamPipe) owed() int { return int(p.left.Load()) }

// Wait implements pipe. It is woken by the deadline that Close and Save set, so stop need not be looked at.
func (p *streamPipe) Wait(<-chan struct{}) {
	WaitWritable(p.rc)
}

// WaitWritable waits until the socket is writable or its write deadline has passed.
func WaitWritable(rc syscall.RawConn) {
	_ = rc.Write(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// write writes what the socket takes without waiting and returns how much that was.
func (p *streamPipe) write(b []byte) (int, error) {
	for {
		n, err := writeOnce(p.fd, b, p.shared)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}
