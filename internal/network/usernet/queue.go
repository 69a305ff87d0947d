// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
)

// Bounds of a queue, in bytes of wire form.
const (
	// queuePerSession is how much one client may have waiting: about 700 full frames, more than a guest's virtio ring.
	queuePerSession = 1 << 20
	// queueTotal is how much all of them may have waiting...
	queueTotal = 8 << 20
	// queueShare is ...beyond which each still gets this, so that no client can fill the queue for the others.
	queueShare = 64 << 10

	chunkSize  = 64 << 10
	spareCount = 16 // chunks, and sources, kept for reuse
)

// A chunk is frames of one session.
type chunk struct {
	session uint64
	buf     []byte // as it goes over the pair: KindSession, the frames, and maybe KindGone
	n       int    // frames
	end     int    // of the frames in buf
}

// source is what waits from one session.
type source struct {
	chunks []*chunk
	bytes  int
}

// A queue holds frames for the gateway while the pair is full. It is bounded, drops at its tail and is served round robin by session,
// so that one client's flood delays no other's frames.
type queue struct {
	mu      sync.Mutex
	sources map[uint64]*source // those with frames waiting
	turns   []uint64           // their order
	bytes   int
	spare   []*chunk
	rested  []*source // without chunks

	token chan struct{} // one: something waits, or wake was called
}

// newQueue makes an empty queue.
func newQueue() *queue { return &queue{sources: map[uint64]*source{}, token: make(chan struct{}, 1)} }

// putAll queues those frames of b that want has. It returns how many it does not want, and for how many there was no room.
func (q *queue) putAll(session uint64, b frame.Batch, want func(f []byte) bool) (unwanted, full int) {
	queued := false
	q.mu.Lock()
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		switch {
		case !want(f):
			unwanted++
		case !q.put(session, f):
			full++
		default:
			queued = true
		}
	}
	q.mu.Unlock()
	if queued {
		q.wake()
	}
	return unwanted, full
}

// put queues f and reports whether there was room. The caller holds mu.
func (q *queue) put(session uint64, f []byte) bool {
	n := frame.PrefixLen + len(f)
	s := q.sources[session]
	waiting := 0
	if s != nil {
		waiting = s.bytes
	}
	if waiting+n > queueShare && (waiting+n > queuePerSession || q.bytes+n > queueTotal) {
		return false
	}
	c := q.last(session, n)
	c.buf = frame.Append(c.buf, f)
	c.end = len(c.buf)
	c.n++
	q.sources[session].bytes += n
	q.bytes += n
	return true
}

// last is the last chunk of a session, or a new one if that has no room for n bytes. The caller holds mu.
func (q *queue) last(session uint64, n int) *chunk {
	s := q.sources[session]
	if s == nil {
		s = q.newSource()
		q.sources[session] = s
		q.turns = append(q.turns, session)
	}
	if last := len(s.chunks) - 1; last >= 0 && len(s.chunks[last].buf)+n <= chunkSize {
		return s.chunks[last]
	}
	c := q.newChunk(session)
	s.chunks = append(s.chunks, c)
	return c
}

// gone queues the message that a session has ended, behind its frames.
func (q *queue) gone(session uint64) {
	q.mu.Lock()
	c := q.last(session, 0)
	c.buf = gateway.AppendMessage(c.buf, gateway.KindGone, session)
	q.mu.Unlock()
	q.wake()
}

func (q *queue) newSource() *source {
	if n := len(q.rested); n > 0 {
		s := q.rested[n-1]
		q.rested = q.rested[:n-1]
		return s
	}
	return &source{}
}

func (q *queue) newChunk(session uint64) *chunk {
	c := &chunk{}
	if n := len(q.spare); n > 0 {
		c = q.spare[n-1]
		q.spare = q.spare[:n-1]
	}
	c.session, c.buf, c.n = session, gateway.AppendSession(c.buf[:0], session), 0
	c.end = gateway.SessionLen
	return c
}

// wake puts the token there: there may be something in the queue.
func (q *queue) wake() {
	select {
	case q.token <- struct{}{}:
	default:
	}
}

// next takes the oldest chunk of the session whose turn it is, nil if none waits. The chunk goes back with free.
func (q *queue) next() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		return nil
	}
	session := q.turns[0]
	q.turns = append(q.turns[:0], q.turns[1:]...)
	s := q.sources[session]
	c := q.pop(s)
	if len(s.chunks) > 0 {
		q.turns = append(q.turns, session)
		return c
	}
	delete(q.sources, session)
	if len(q.rested) < spareCount {
		q.rested = append(q.rested, s)
	}
	return c
}

// pop takes the first chunk of s. The caller holds mu.
func (q *queue) pop(s *source) *chunk {
	c := s.chunks[0]
	s.chunks = append(s.chunks[:0], s.chunks[1:]...)
	n := c.end - gateway.SessionLen
	s.bytes -= n
	q.bytes -= n
	return c
}

// empty tells whether nothing waits.
func (q *queue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.turns) == 0
}

// free gives a chunk back.
func (q *queue) free(c *chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.spare) < spareCount {
		q.spare = append(q.spare, c)
	}
}
