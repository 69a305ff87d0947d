// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/bpf"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// stallTime is how long a reader may take nothing of what is written.
	stallTime = 10 * time.Second

	// leaveTime is how long what is still to be written may take when the reader, or the count, has ended a capture. When it is
	// the daemon, the connection is cut off earlier.
	leaveTime = 2 * time.Second

	// pauseTime is how long the writer waits for more after it has written, unless memory runs short: a wake-up for each frame
	// would cost more than the copy. It is also how old a frame is at most when a reader that keeps up sees it.
	pauseTime = 5 * time.Millisecond
)

// Reasons for the end of a capture.
var (
	ErrLeft    = errors.New("the reader ended it")
	ErrCount   = errors.New("all frames that were asked for are captured")
	ErrStopped = errors.New("the daemon stops or is upgraded")
	ErrStalled = fmt.Errorf("the reader took nothing for %v", stallTime)
)

// An Output is where a capture is written. SetWriteDeadline may be called from several goroutines.
type Output interface {
	io.Writer
	SetWriteDeadline(t time.Time) error
}

// A Result is what became of a capture.
type Result struct {
	Frames  uint64 // written
	Dropped uint64 // for want of memory, before the filter
	Reason  error  // why it ended; never nil
}

// What the writer does, so that the clients know whether to wake it.
const (
	looking int32 = iota // it will see what comes
	pausing              // it looks again soon; memory that runs short wakes it
	idle                 // any frame wakes it
)

// A Session is a capture that runs.
type Session struct {
	hub    *Hub
	q      Request
	only   map[uint64]struct{} // nil: all clients
	filter *bpf.VM             // nil: all frames
	ring   *ring
	snap   int

	writer atomic.Int32
	wake   chan struct{} // of one
	ended  chan struct{} // closed by end

	mu     sync.Mutex
	out    Output // nil until Run
	reason error  // why it ends, set before ended is closed

	frames, dropped atomic.Uint64
}

// newSession makes one for a request that has been checked.
func newSession(h *Hub, q Request) (*Session, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	s := &Session{hub: h, q: q, wake: make(chan struct{}, 1), ended: make(chan struct{}), snap: q.SnapLen}
	s.filter, _ = newFilter(q.Filter)
	if s.snap == 0 {
		s.snap = frame.MaxLen
	}
	kept := s.snap
	if s.filter != nil { // it may look at any byte, and at the length
		kept = frame.MaxLen
	}
	if len(q.Clients) > 0 {
		s.only = make(map[uint64]struct{}, len(q.Clients))
		for _, id := range q.Clients {
			s.only[id] = struct{}{}
		}
	}
	s.ring = newRing(h.o.Memory, kept)
	return s, nil
}

// Discard ends a capture that Run is not called for.
func (s *Session) Discard() {
	s.end(ErrLeft)
	s.hub.remove(s)
}

// see copies the frames of b, if they are wanted. It is on their way.
func (s *Session) see(client uint64, dir direction, b frame.Batch) {
	if s.only != nil {
		if _, ok := s.only[client]; !ok {
			return
		}
	}
	pressing := s.ring.put(client, dir, b)
	if w := s.writer.Load(); w == idle || w == pausing && pressing {
		if s.writer.CompareAndSwap(w, looking) {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Run writes to out until ctx is done, whose cause is the reason then, or the capture ends for another one. It is called once.
func (s *Session) Run(ctx context.Context, out Output) Result {
	defer s.hub.remove(s)
	s.mu.Lock()
	s.out = out
	s.mu.Unlock()
	defer context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })()
	err := s.write()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrStalled
	}
	if err != nil {
		s.end(err) // if nobody has
	}
	return Result{Frames: s.frames.Load(), Dropped: s.dropped.Load(), Reason: s.why()}
}

// end has the writer finish for that reason. Only the first counts.
func (s *Session) end(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != nil {
		return
	}
	s.reason = reason
	close(s.ended)
	if s.out != nil {
		_ = s.out.SetWriteDeadline(time.Now().Add(leaveTime))
	}
}

func (s *Session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Write implements io.Writer for the file: each write has its time.
func (s *Session) Write(b []byte) (int, error) {
	s.mu.Lock()
	out := s.out
	if s.reason == nil {
		_ = out.SetWriteDeadline(time.Now().Add(stallTime))
	}
	s.mu.Unlock()
	return out.Write(b)
}

// write is the writer. It returns nil if the file is complete.
func (s *Session) write() (err error) {
	f, err := newFile(s, s.ring.began, s.hub.o, s.snap)
	if err != nil {
		return err
	}
	m := merger{r: s.ring}
	m.lost = func(client, n uint64) {
		s.dropped.Add(n)
		c, ferr := f.of(client)
		if ferr != nil {
			err = errors.Join(err, ferr)
			return
		}
		c.lost += n
	}
	m.rest = func(n uint64) {
		s.dropped.Add(n)
		f.others.lost += n
	}
	take := func(r record) bool {
		if terr := s.take(f, r); terr != nil {
			err = terr
		}
		return err == nil && (s.q.Count == 0 || s.frames.Load() < s.q.Count)
	}
	for first := true; ; first = false {
		over := s.over()
		n := m.drain(take)
		if err != nil {
			return err
		}
		if over || s.q.Count > 0 && s.frames.Load() >= s.q.Count {
			s.end(ErrCount) // unless there is another reason
			return f.finish(time.Now())
		}
		if n > 0 || first {
			if err = f.w.Flush(); err != nil {
				return err
			}
		}
		s.wait(n > 0)
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
	s.frames.Add(1)
	return nil
}

// over tells whether the capture is to end.
func (s *Session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// wait returns when there is something to do: soon when there was something just now.
func (s *Session) wait(soon bool) {
	if soon {
		s.writer.Store(pausing)
		t := time.NewTimer(pauseTime)
		defer t.Stop()
		select {
		case <-s.wake:
		case <-t.C:
		case <-s.ended:
		}
	} else {
		s.writer.Store(idle)
		if s.ring.empty() { // else it came before that
			select {
			case <-s.wake:
			case <-s.ended:
			}
		}
	}
	s.writer.Store(looking)
}
