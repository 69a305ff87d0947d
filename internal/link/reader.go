// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A reader is the input side of a Stream, used by the goroutine in Run.
type reader struct {
	buf  []byte // nil while nothing is readable and no frame has partly arrived
	have int    // bytes in buf: the begin of a frame that has not fully arrived

	// skip is, while draining, how many bytes are missing to the next frame boundary once buf's content is discarded.
	skip int
	lost bool // the framing is lost, there is no boundary any more
	eof  bool // the client's end was seen while draining

	frames, bytes, runts atomic.Uint64
}

// Run reads the client's frames and hands them to h until the client closes its end (io.EOF), its framing is lost
// (frame.ErrTooLong), its socket fails, or Shutdown is called (ErrShutdown). Unless the client closed, it then reads and
// discards by a DrainSchedule before it returns.
func (s *Stream) Run(h Handler) error {
	err := s.readFrames(h)
	if s.failure.Load() != nil && (err == nil || os.IsTimeout(err)) {
		err = s.lastFrames(h)
	}
	if errors.Is(err, io.EOF) {
		s.release()
		return err
	}
	s.Drain()
	if s.rd.eof && !s.rd.lost && s.failure.Load() != nil {
		return io.EOF // the write failed because the client had gone
	}
	return s.reason(err)
}

// Drain reads and discards what the client sends, by the schedule that Shutdown was given, else by DrainOne. Run calls it;
// the goroutine of a Run that ended by a panic calls it too.
func (s *Stream) Drain() {
	sched := DrainOne
	if p := s.shutdown.Load(); p != nil {
		sched = *p
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	if drainOnClose {
		s.discard(sched)
		s.refuse(sched.Settle)
	}
	s.release()
}

// release gives the read buffer back.
func (s *Stream) release() {
	if s.rd.buf != nil {
		readBufs.put(s.rd.buf)
		s.rd.buf, s.rd.have = nil, 0
	}
}

// readFrames is the read loop. The whole of it runs inside one RawConn.Read, whose callback returns false to wait for the
// next event. The socket is read until it says EAGAIN: the poller reports edges, and an end that arrives together with data
// is reported once.
func (s *Stream) readFrames(h Handler) error {
	var err error
	poll := s.rc.Read(func(fd uintptr) bool {
		for {
			var again bool
			if again, err = s.readOnce(int(fd), h); err != nil {
				return true
			}
			if s.shutdown.Load() != nil {
				return true
			}
			if again {
				if s.rd.have == 0 {
					s.release()
				}
				return false
			}
		}
	})
	if err == nil {
		err = poll
	}
	return err
}

// lastFrames hands on what the client had sent when a write to it failed: mostly it has closed, and these are its last words.
func (s *Stream) lastFrames(h Handler) (err error) {
	const most = 4 // reads; more than the socket's buffer holds
	// It fails only once closed, and then there is nothing to read.
	_ = s.rc.Control(func(fd uintptr) {
		for range most {
			var again bool
			if again, err = s.readOnce(int(fd), h); again || err != nil {
				return
			}
		}
	})
	return err
}

// readOnce reads once and hands on the frames that are whole. again reports that nothing was there to read.
func (s *Stream) readOnce(fd int, h Handler) (again bool, err error) {
	r := &s.rd
	if r.buf == nil {
		if r.buf, err = readBufs.get(); err != nil {
			r.buf = nil
			return false, fmt.Errorf("%w: %w", ErrNoMemory, err)
		}
	}
	n, err := readNow(fd, r.buf[r.have:])
	switch {
	case err == unix.EAGAIN:
		return true, nil
	case err == unix.EINTR:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read from client: %w", err)
	case n == 0:
		return false, io.EOF
	}
	r.have += n
	return false, s.walk(h)
}

// walk hands on the whole frames in the buffer and moves what is left of it to the front.
func (s *Stream) walk(h Handler) error {
	r := &s.rd
	done := 0
	for {
		b, used, runts, err := frame.Scan(r.buf[done:r.have])
		if runts > 0 {
			r.runts.Add(uint64(runts))
		}
		if b.Len() > 0 {
			r.frames.Add(uint64(b.Len()))
			r.bytes.Add(uint64(b.DataLen()))
			h.Frames(b)
		}
		if err != nil {
			n := binary.BigEndian.Uint32(r.buf[done:])
			r.have, r.lost = 0, true
			return fmt.Errorf("client announced a frame of %d bytes (0x%08x): %w", n, n, err)
		}
		if used == 0 {
			break
		}
		done += used
	}
	if done > 0 {
		r.have = copy(r.buf, r.buf[done:r.have])
	}
	return nil
}

// discard reads until sched allows to close.
func (s *Stream) discard(sched DrainSchedule) {
	if s.rd.buf == nil {
		buf, err := readBufs.get()
		if err != nil {
			return
		}
		s.rd.buf = buf
	}
	s.advance(0) // a handler that panicked left a buffer that may be full
	start := time.Now()
	last := start // when something was read
	for {
		if err := s.conn.SetReadDeadline(sched.next(start, last, s.atBoundary())); err != nil {
			return
		}
		n, err := s.conn.Read(s.rd.buf[s.rd.have:])
		if os.IsTimeout(err) {
			n, err = s.look(err)
		}
		if n > 0 {
			last = time.Now()
			s.advance(n)
		}
		if err != nil && !os.IsTimeout(err) {
			s.rd.eof = true
			return
		}
		now := time.Now()
		if now.Sub(start) >= sched.Hard || err != nil && sched.mayClose(start, last, now, s.atBoundary()) {
			return
		}
	}
}

// refuse ends the drain where the system can have the client's writes fail: they then return EPIPE at once instead of
// EAGAIN, so that QEMU drops its frames and waits for nothing when it sees the end that follows. A client that found its
// buffer full just before has settle to notice: silence alone says nothing about it on a machine that is short of
// processors.
func (s *Stream) refuse(settle time.Duration) {
	refused := false
	err := s.rc.Control(func(fd uintptr) { refused = refuseWrites(int(fd)) })
	if err != nil || !refused || s.rd.eof || s.rd.buf == nil {
		return
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(settle))
	for { // what was written before; then the end, which comes at once
		if _, err := s.conn.Read(s.rd.buf); err != nil {
			break
		}
	}
	time.Sleep(settle)
}

// look reads once more after a deadline has passed: a process that was held up finds the deadline over and never learns that
// something waits. err comes back when nothing does.
func (s *Stream) look(err error) (int, error) {
	n, rerr := 0, error(unix.EBADF)
	cerr := s.rc.Control(func(fd uintptr) { n, rerr = readNow(int(fd), s.rd.buf[s.rd.have:]) })
	if cerr != nil {
		return 0, cerr
	}
	switch {
	case rerr == unix.EAGAIN, rerr == unix.EINTR:
		return 0, err
	case rerr != nil:
		return 0, rerr
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// next is until when to wait for more input.
func (d DrainSchedule) next(start, last time.Time, boundary bool) time.Time {
	now := time.Now()
	t := now.Sub(start)
	switch {
	case t >= d.Empty, t >= d.Boundary && boundary:
		return now.Add(time.Millisecond) // what waits is read, nothing more
	case t >= d.Boundary:
		return start.Add(d.Empty)
	case boundary && last.Add(d.Quiet).Before(start.Add(d.Boundary)):
		return last.Add(d.Quiet)
	default:
		return start.Add(d.Boundary)
	}
}

// mayClose reports whether a link with nothing to read at time now may be closed.
func (d DrainSchedule) mayClose(start, last, now time.Time, boundary bool) bool {
	t := now.Sub(start)
	return t >= d.Empty || boundary && (t >= d.Boundary || now.Sub(last) >= d.Quiet)
}

// atBoundary reports whether everything read so far ends with a whole frame.
func (s *Stream) atBoundary() bool {
	return s.rd.lost || s.rd.have == 0 && s.rd.skip == 0
}

// advance notes n more bytes that are discarded, keeping no more than a prefix that was cut.
func (s *Stream) advance(n int) {
	r := &s.rd
	if r.lost {
		return
	}
	b := r.buf[:r.have+n]
	for {
		k := min(r.skip, len(b))
		r.skip -= k
		b = b[k:]
		if len(b) < frame.PrefixLen {
			break
		}
		length := binary.BigEndian.Uint32(b)
		if length > frame.MaxLen {
			r.lost, r.have = true, 0
			return
		}
		r.skip = int(length)
		b = b[frame.PrefixLen:]
	}
	r.have = copy(r.buf, b)
}
