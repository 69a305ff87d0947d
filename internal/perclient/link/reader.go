// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A reader is the input side of a stream, used by the goroutine in Run.
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
func (s *stream) Run(h Handler) error {
	err := s.readFrames(h)
	if s.failure.Load() != nil && interrupted(err) {
		err = s.lastFrames(h)
	}
	if errors.Is(err, io.EOF) {
		s.release()
		return err
	}
	if s.detached(err) {
		return ErrDetached
	}
	s.Drain()
	if s.rd.eof && !s.rd.lost && s.failure.Load() != nil {
		return io.EOF // the write failed because the client had gone
	}
	if f := s.failure.Load(); f != nil {
		return *f
	}
	if s.shutdown.Load() != nil && interrupted(err) {
		return ErrShutdown
	}
	return err
}

// Drain reads and discards what the client sends, by the schedule that Shutdown was given, else by DrainOne. Run calls it;
// the goroutine of a Run that ended by a panic calls it too.
func (s *stream) Drain() {
	sched := DrainOne
	if p := s.shutdown.Load(); p != nil {
		sched = *p
	}
	s.out.Stop()
	faults.Point("link.discard")
	s.discard(sched)
	s.refuse(sched.Settle)
	s.release()
}

// release gives the read buffer back.
func (s *stream) release() {
	if s.rd.buf != nil {
		readBufs.put(s.rd.buf)
		s.rd.buf, s.rd.have = nil, 0
	}
}

// readFrames is the read loop. The whole of it runs inside one RawConn.Read, whose callback returns false to wait for the
// next event. The socket is read until it says EAGAIN: the poller reports edges, and an end that arrives together with data
// is reported once.
func (s *stream) readFrames(h Handler) error {
	var err error
	poll := s.rc.Read(func(fd uintptr) bool {
		for {
			var again bool
			if again, err = s.readOnce(int(fd), h); err != nil {
				return true
			}
			if s.shutdown.Load() != nil || s.detaching.Load() {
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
func (s *stream) lastFrames(h Handler) (err error) {
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
func (s *stream) readOnce(fd int, h Handler) (again bool, err error) {
	r := &s.rd
	if r.buf == nil {
		if r.buf, err = readBufs.get(); err != nil {
			r.buf = nil
			return false, fmt.Errorf("%w: %w", errNoMemory, err)
		}
	}
	n, err := readNow(fd, r.buf[r.have:], s.shared)
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
func (s *stream) walk(h Handler) error {
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
