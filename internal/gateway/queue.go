// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// Bounds of a Queue, in bytes of wire form.
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

// A Chunk is frames of one session.
type Chunk struct {
	session uint64
	buf     []byte // as it goes over the pair: KindSession, the frames, and maybe KindGone
	n       int    // frames
	end     int    // of the frames in buf
}

// Wire is the chunk as it goes over the pair.
func (c *Chunk) Wire() []byte { return c.buf }

// Len is the number of frames.
func (c *Chunk) Len() int { return c.n }

func (c *Chunk) frames() frame.Batch { return frame.NewBatch(c.buf[SessionLen:c.end], c.n) }

// source is what waits from one session.
type source struct {
	chunks []*Chunk
	bytes  int
}

// A Queue holds frames for the gateway. It is bounded, drops at its tail and is served round robin by session, so that one
// client's flood delays no other's frames. There is one on each side of the pair: the daemon's keeps clients' readers from waiting
// for the socket, the gateway's keeps frames that wait in the socket from standing in front of others'.
type Queue struct {
	mu      sync.Mutex
	sources map[uint64]*source // those with frames waiting
	turns   []uint64           // their order
	bytes   int
	spare   []*Chunk
	rested  []*source // without chunks

	wake chan struct{} // one token: something waits
}

// NewQueue makes an empty queue.
func NewQueue() *Queue { return &Queue{sources: map[uint64]*source{}, wake: make(chan struct{}, 1)} }

// Put queues those frames of b that want has. It returns how many it does not want, and for how many there was no room.
func (q *Queue) Put(session uint64, b frame.Batch, want func(f []byte) bool) (unwanted, full int) {
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
		q.Wake()
	}
	return unwanted, full
}

// put queues f and reports whether there was room. The caller holds mu.
func (q *Queue) put(session uint64, f []byte) bool {
	n := frame.PrefixLen + len(f)
	s := q.sources[session]
	waiting := 0
	if s != nil {
		waiting = s.bytes
	}
	if waiting+n > queueShare && (waiting+n > queuePerSession || q.bytes+n > queueTotal) {
		return false
	}
	c := q.chunk(session, n)
	c.buf = frame.Append(c.buf, f)
	c.end = len(c.buf)
	c.n++
	q.sources[session].bytes += n
	q.bytes += n
	return true
}

// chunk is the last chunk of a session, or a new one if that has no room for n bytes. The caller holds mu.
func (q *Queue) chunk(session uint64, n int) *Chunk {
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

// Gone queues the message that a session has ended, behind its frames.
func (q *Queue) Gone(session uint64) {
	q.mu.Lock()
	c := q.chunk(session, 0)
	c.buf = AppendMessage(c.buf, KindGone, session)
	q.mu.Unlock()
	q.Wake()
}

func (q *Queue) newSource() *source {
	if n := len(q.rested); n > 0 {
		s := q.rested[n-1]
		q.rested = q.rested[:n-1]
		return s
	}
	return &source{}
}

func (q *Queue) newChunk(session uint64) *Chunk {
	c := &Chunk{}
	if n := len(q.spare); n > 0 {
		c = q.spare[n-1]
		q.spare = q.spare[:n-1]
	}
	c.session, c.buf, c.n = session, AppendSession(c.buf[:0], session), 0
	c.end = SessionLen
	return c
}

// Woken has a token when there may be something in the queue, or somebody called Wake.
func (q *Queue) Woken() <-chan struct{} { return q.wake }

// Wake puts the token there.
func (q *Queue) Wake() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Next takes the oldest chunk of the session whose turn it is, nil if none waits. The chunk goes back with Free.
func (q *Queue) Next() *Chunk {
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
func (q *Queue) pop(s *source) *Chunk {
	c := s.chunks[0]
	s.chunks = append(s.chunks[:0], s.chunks[1:]...)
	n := c.end - SessionLen
	s.bytes -= n
	q.bytes -= n
	return c
}

// Empty tells whether nothing waits.
func (q *Queue) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.turns) == 0
}

// Waits tells whether frames of the session wait.
func (q *Queue) Waits(session uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sources[session] != nil
}

// Free gives a chunk back.
func (q *Queue) Free(c *Chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.spare) < spareCount {
		q.spare = append(q.spare, c)
	}
}
