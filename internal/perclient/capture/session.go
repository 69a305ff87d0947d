// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/net/bpf"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// stallTime is how long a reader may take nothing of what is written.
	stallTime = 10 * time.Second

	// pauseTime is how long the writer waits for more before it writes, unless memory runs short: a wake-up for each frame
	// would cost more than the copy. It is also how old a frame is at most when a reader that keeps up sees it.
	pauseTime = 5 * time.Millisecond
)

// Reasons for the end of a capture.
var (
	ErrLeft    = errors.New("the reader ended it")
	ErrCount   = errors.New("all frames that were asked for are captured")
	ErrStopped = errors.New("the daemon stops or is upgraded")
	errStalled = fmt.Errorf("the reader took nothing for %v", stallTime)
)

// An output is where a capture is written.
type output interface {
	io.Writer
	SetWriteDeadline(t time.Time) error
}

// A result is what became of a capture.
type result struct {
	Frames  uint64 // written
	Dropped uint64 // for want of memory, before the filter
	Reason  error  // why it ended; never nil
}

// A Session is a capture that runs.
type Session struct {
	hub    *Hub
	q      Request
	filter *bpf.VM // nil: all frames
	ring   *ring
	snap   int

	wake  chan struct{} // of one: there is something
	press chan struct{} // of one: memory runs short

	out  output          // of Run
	done <-chan struct{} // closed when it is to end; of Run

	// Of Run.
	frames, dropped uint64
	chunks          [][]byte
	lost            map[uint64]uint64
}

func newSession(h *Hub, q Request) *Session {
	s := &Session{hub: h, q: q, wake: make(chan struct{}, 1), press: make(chan struct{}, 1), snap: q.SnapLen, lost: map[uint64]uint64{}}
	s.filter, _ = newFilter(q.Filter)
	if s.snap == 0 {
		s.snap = frame.MaxLen
	}
	kept := s.snap
	if s.filter != nil { // it may look at any byte, and at the length
		kept = frame.MaxLen
	}
	s.ring = newRing(memory, kept)
	return s
}

// Discard ends a capture that Run is not called for.
func (s *Session) Discard() { s.hub.remove(s, result{Reason: ErrLeft}) }

// see copies the frames of b, if they are wanted. It is on their way.
func (s *Session) see(client uint64, dir direction, b frame.Batch) {
	if len(s.q.Clients) > 0 && !slices.Contains(s.q.Clients, client) {
		return
	}
	if s.ring.put(client, dir, b) {
		signal(s.press)
	}
	signal(s.wake)
}

// signal tells the writer, unless it has been told already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run writes to out until done is closed, for what reason tells then, or the capture ends for another reason. It is called once.
func (s *Session) Run(out output, done <-chan struct{}, reason func() error) (res result) {
	defer func() { s.hub.remove(s, res) }()
	s.out, s.done = out, done
	err := s.write()
	switch {
	case errors.Is(err, ErrCount):
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errStalled // the output may have taken it for the end, but it began with this
	case s.over():
		err = reason()
	}
	return result{Frames: s.frames, Dropped: s.dropped, Reason: err}
}

// Write implements io.Writer for the file: each write has its time.
func (s *Session) Write(b []byte) (int, error) {
	_ = s.out.SetWriteDeadline(time.Now().Add(stallTime))
	return s.out.Write(b)
}

// write is the writer. It returns nil, or ErrCount, if the file is complete.
func (s *Session) write() (err error) {
	f, err := newFile(s, s.ring.began, s.hub.o, s.snap)
	for err == nil {
		over := s.over()
		s.each(func(r record) {
			switch {
			case err != nil:
				s.dropped++
			case !s.enough():
				err = s.take(f, r)
			}
		})
		for client, n := range s.lost {
			c, ferr := f.of(client)
			err = errors.Join(err, ferr)
			c.lost += n
		}
		switch {
		case err != nil:
		case over || s.enough():
			if err = f.finish(time.Now()); err == nil && !over {
				return ErrCount
			}
			return err
		default:
			if err = f.w.Flush(); err == nil {
				s.wait()
			}
		}
	}
	s.each(func(record) { s.dropped++ }) // what will not be written any more
	return err
}

// each calls f with all that is in memory. What was lost is in s.lost, and counted, then.
func (s *Session) each(f func(record)) {
	clear(s.lost)
	s.chunks = s.ring.take(s.chunks[:0], s.lost)
	for _, c := range s.chunks {
		for len(c) > 0 {
			var r record
			r, c = next(c)
			f(r)
		}
	}
	s.ring.give(s.chunks)
	for _, n := range s.lost {
		s.dropped += n
	}
}

// take writes a frame that the filter wants.
func (s *Session) take(f *file, r record) error {
	c, err := f.of(r.client)
	if err != nil {
		return err
	}
	c.seen++
	if !accepts(s.filter, r.data) {
		return nil
	}
	if err := f.write(c, r); err != nil {
		return err
	}
	s.frames++
	return nil
}

// enough tells whether all frames that were asked for are there.
func (s *Session) enough() bool { return s.q.Count > 0 && s.frames >= s.q.Count }

// over tells whether the capture is to end.
func (s *Session) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// wait returns a while after there is something to do, or once memory runs short.
func (s *Session) wait() {
	select {
	case <-s.wake:
	case <-s.done:
		return
	}
	select {
	case <-s.press:
	case <-time.After(pauseTime):
	case <-s.done:
	}
}
