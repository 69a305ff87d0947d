// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// writeNow writes what the socket takes without waiting and returns how much that was.
func writeNow(fd int, b []byte) (int, error) {
	for {
		n, err := writeOnce(fd, b)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// owe queues what is left of b after n of its bytes were written. The rest of a frame that was cut is owed to the client
// however full the queue is: without it the client would lose the framing. The caller holds mu.
func (s *Stream) owe(b frame.Batch, n int) {
	buf := b.Bytes()
	it := b.Iter()
	sent := 0
	for it.Next() && it.End() <= n {
		sent++
	}
	if n > it.Offset() { // the current frame is cut
		rest := buf[n:it.End()]
		if !s.out.push(rest) {
			s.ended = true
			s.stats.DropClosed += uint64(b.Len() - sent)
			s.fail(fmt.Errorf("queue the rest of a frame: %w", ErrNoMemory))
			return
		}
		s.owed = len(rest)
		n = it.End()
		sent++
	}
	s.stats.ToClientFrames += uint64(sent)
	s.stats.ToClientBytes += uint64(n - sent*frame.PrefixLen)
	s.enqueue(buf[n:], b.Len()-sent)
	if s.out.size > 0 {
		s.drainMore()
	}
}

// drainMore starts the drainer. The caller holds mu.
func (s *Stream) drainMore() {
	s.busy = true
	s.moving.made()
	s.drainer.Add(1)
	go s.drainFn()
}

// enqueue appends the whole frames in buf as far as the queue has room for, in order. The caller holds mu.
func (s *Stream) enqueue(buf []byte, frames int) {
	if frames == 0 {
		return
	}
	if room := s.limit - s.out.size - s.flight; len(buf) > room {
		_, end := fit(buf, room)
		buf = buf[:end]
	}
	taken, end := s.out.pushWhole(buf)
	s.stats.ToClientFrames += uint64(taken)
	s.stats.ToClientBytes += uint64(end - taken*frame.PrefixLen)
	s.stats.DropQueueFull += uint64(frames - taken)
}

// fit is how many frames at the head of buf, and how many bytes, are within room bytes.
func fit(buf []byte, room int) (frames, end int) {
	it := frame.NewBatch(buf, 0).Iter()
	for it.Next() && it.End() <= room {
		frames++
		end = it.End()
	}
	return frames, end
}

// drainOut writes the queue to the client, waiting for it outside the lock, until the queue is empty or the link is saved.
func (s *Stream) drainOut() {
	defer s.drainer.Done()
	for {
		c, cut, ok := s.next()
		if !ok {
			return
		}
		left, err := s.writeAllSafely(c)
		if os.IsTimeout(err) && s.putBack(c, len(c)-len(left), cut) {
			return
		}
		chunks.put(c)
		if err != nil {
			s.giveUp(err)
			return
		}
	}
}

// next takes a chunk from the queue, of which the first cut bytes are the rest of a frame. Without one, or for Save, the
// drainer has to end.
func (s *Stream) next() (c []byte, cut int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flight = 0
	if !s.parked {
		c, ok = s.out.pop()
	}
	if !ok {
		s.busy = false
		return nil, 0, false
	}
	s.flight = len(c)
	cut, s.owed = s.owed, 0
	return c, cut, true
}

// putBack returns chunk c, of which the bytes before done are written and which begins with cut bytes of a frame, to the queue
// for Save. It reports false when nobody saves the link.
func (s *Stream) putBack(c []byte, done, cut int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.parked {
		return false
	}
	end := cut // of the frame that done is in
	for end < done {
		end += frame.PrefixLen + int(binary.BigEndian.Uint32(c[end:]))
	}
	s.owed = end - done
	s.out.unpop(c[:copy(c, c[done:])])
	s.flight, s.busy = 0, false
	return true
}

// writeAllSafely is writeAll, of which a panic is the end of this client.
func (s *Stream) writeAllSafely(b []byte) (left []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic while writing: %v\n%s", r, debug.Stack())
		}
	}()
	faults.In("link.drain", b)
	return s.writeAll(b)
}

// writeAll writes b, waiting for room outside of system calls. conn.Write would wait inside of one where O_NONBLOCK was
// cleared. left is what was not written because of an error.
func (s *Stream) writeAll(b []byte) (left []byte, err error) {
	poll := s.rc.Write(func(fd uintptr) bool {
		for len(b) > 0 {
			var n int
			n, err = writeNow(int(fd), b)
			b = b[n:]
			if n > 0 {
				s.moving.made()
			}
			if err == unix.EAGAIN {
				err = nil
				return false
			}
			if err != nil {
				return true
			}
		}
		return true
	})
	if err == nil {
		err = poll
	}
	return b, err
}

// giveUp drops the queue after the drainer's write failed. busy stays set: nothing may be written after a cut frame.
func (s *Stream) giveUp(err error) {
	s.mu.Lock()
	s.ended = true
	s.flight = 0
	s.out.drop()
	s.mu.Unlock()
	s.fail(fmt.Errorf("write to client: %w", err))
}
