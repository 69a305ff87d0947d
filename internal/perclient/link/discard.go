// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// discard reads until sched allows to close.
func (s *stream) discard(sched DrainSchedule) {
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
		n, err := s.await(s.rd.buf[s.rd.have:])
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
func (s *stream) refuse(settle time.Duration) {
	refused := false
	err := s.rc.Control(func(fd uintptr) { refused = refuseWrites(int(fd)) })
	if err != nil || !refused || s.rd.eof || s.rd.buf == nil {
		return
	}
	// What was written before, and then the end: nothing comes any more and no read waits. A deadline could pass on a machine that
	// is short of processors, and closing with something unread is a reset.
	_ = s.rc.Control(func(fd uintptr) {
		for {
			if n, err := readNow(int(fd), s.rd.buf, s.shared); n <= 0 && err != unix.EINTR {
				return
			}
		}
	})
	time.Sleep(settle)
}

// await reads once, waiting until the read deadline outside of system calls. conn.Read would wait inside of one, for ever,
// where O_NONBLOCK was cleared.
func (s *stream) await(b []byte) (n int, err error) {
	poll := s.rc.Read(func(fd uintptr) bool {
		for {
			if n, err = readNow(int(fd), b, s.shared); err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case poll != nil:
		return 0, poll
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return max(n, 0), err
}

// look reads once more after a deadline has passed: a process that was held up finds the deadline over and never learns that
// something waits. err comes back when nothing does.
func (s *stream) look(err error) (int, error) {
	n, rerr := 0, error(unix.EBADF)
	cerr := s.rc.Control(func(fd uintptr) { n, rerr = readNow(int(fd), s.rd.buf[s.rd.have:], s.shared) })
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
func (s *stream) atBoundary() bool {
	return s.rd.lost || s.rd.have == 0 && s.rd.skip == 0
}

// advance notes n more bytes that are discarded, keeping no more than a prefix that was cut.
func (s *stream) advance(n int) {
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
