// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"sync"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// Bounds of the queue between the clients' readers and the gateway, in bytes of wire form.
const (
	// inletPerSource is how much one client may have waiting: about 700 full frames, more than a guest's virtio ring.
	inletPerSource = 1 << 20
	// inletTotal is how much all of them may have waiting...
	inletTotal = 8 << 20
	// inletShare is ...beyond which each still gets this, so that nobody can fill the queue for the others.
	inletShare = 64 << 10

	chunkSize  = 64 << 10
	spareCount = 16 // chunks, and sources, kept for reuse
)

// A chunk is frames of one client in wire form.
type chunk struct {
	src bridge.PortID
	buf []byte
	n   int // frames
}

// source is what waits from one client.
type source struct {
	chunks []*chunk
	bytes  int
}

// inlet is the gateway's sink on the bridge: a bounded queue that drops at its tail and is served round robin by client,
// so that the user-space stack never runs on a client's reader and one client's flood delays nobody else's frames.
type inlet struct {
	mac   [6]byte // of the gateway
	max   int     // longest frame, bytes
	drops *drops

	mu      sync.Mutex
	sources map[bridge.PortID]*source // those with frames waiting
	turns   []bridge.PortID           // their order
	bytes   int
	spare   []*chunk
	rested  []*source // without chunks
	closed  bool

	wake chan struct{} // one token: something waits, or closed
}

// drops count the frames that the gateway did not take or could not send, by reason.
type drops struct {
	unwanted  atomic.Uint64 // not for the gateway, or a protocol it does not speak
	malformed atomic.Uint64 // lengths or addresses that cannot be
	queueFull atomic.Uint64 // the client had too much waiting
	outFull   atomic.Uint64 // too much waits towards the guests
	restart   atomic.Uint64 // arrived while the stack was being replaced
}

func newInlet(mac []byte, maxFrame int, d *drops) *inlet {
	return &inlet{mac: [6]byte(mac), max: maxFrame, drops: d, sources: map[bridge.PortID]*source{}, wake: make(chan struct{}, 1)}
}

// MaxFrame implements frame.Sink.
func (q *inlet) MaxFrame() int { return q.max }

// Deliver implements frame.Sink. The bridge calls DeliverFrom.
func (q *inlet) Deliver(b frame.Batch) { q.DeliverFrom(0, b) }

// DeliverFrom implements bridge.SourceSink.
func (q *inlet) DeliverFrom(src bridge.PortID, b frame.Batch) {
	var unwanted, full uint64
	queued := false
	q.mu.Lock()
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		switch {
		case !q.wants(f):
			unwanted++
		case q.closed || !q.put(src, f):
			full++
		default:
			queued = true
		}
	}
	q.mu.Unlock()
	q.drops.unwanted.Add(unwanted)
	q.drops.queueFull.Add(full)
	if queued {
		q.signal()
	}
}

// wants tells whether the gateway can have an interest in f at all.
func (q *inlet) wants(f []byte) bool {
	if len(f) < frame.MinLen || len(f) > q.max {
		return false
	}
	dst := [6]byte(f[:6])
	if dst != q.mac && dst != [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} {
		return false
	}
	t := header.Ethernet(f).Type()
	return t == header.IPv4ProtocolNumber || t == header.ARPProtocolNumber
}

// put queues f and reports whether there was room. The caller holds mu.
func (q *inlet) put(src bridge.PortID, f []byte) bool {
	n := frame.PrefixLen + len(f)
	s := q.sources[src]
	waiting := 0
	if s != nil {
		waiting = s.bytes
	}
	if waiting+n > inletShare && (waiting+n > inletPerSource || q.bytes+n > inletTotal) {
		return false
	}
	if s == nil {
		s = q.newSource()
		q.sources[src] = s
		q.turns = append(q.turns, src)
	}
	var c *chunk
	if len(s.chunks) > 0 {
		c = s.chunks[len(s.chunks)-1]
	}
	if c == nil || len(c.buf)+n > chunkSize {
		c = q.newChunk(src)
		s.chunks = append(s.chunks, c)
	}
	c.buf = frame.Append(c.buf, f)
	c.n++
	s.bytes += n
	q.bytes += n
	return true
}

func (q *inlet) newSource() *source {
	if n := len(q.rested); n > 0 {
		s := q.rested[n-1]
		q.rested = q.rested[:n-1]
		return s
	}
	return &source{}
}

func (q *inlet) newChunk(src bridge.PortID) *chunk {
	if n := len(q.spare); n > 0 {
		c := q.spare[n-1]
		q.spare = q.spare[:n-1]
		c.src, c.buf, c.n = src, c.buf[:0], 0
		return c
	}
	return &chunk{src: src}
}

// next waits for frames and returns the oldest chunk of the client whose turn it is, nil after close. The chunk goes back
// with free.
func (q *inlet) next() *chunk {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return nil
		}
		if len(q.turns) > 0 {
			c := q.pop()
			q.mu.Unlock()
			return c
		}
		q.mu.Unlock()
		<-q.wake
	}
}

// pop takes a chunk. Something waits, and the caller holds mu.
func (q *inlet) pop() *chunk {
	id := q.turns[0]
	q.turns = append(q.turns[:0], q.turns[1:]...)
	s := q.sources[id]
	c := s.chunks[0]
	s.chunks = append(s.chunks[:0], s.chunks[1:]...)
	s.bytes -= len(c.buf)
	q.bytes -= len(c.buf)
	if len(s.chunks) > 0 {
		q.turns = append(q.turns, id)
	} else {
		delete(q.sources, id)
		if len(q.rested) < spareCount {
			q.rested = append(q.rested, s)
		}
	}
	return c
}

func (q *inlet) free(c *chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.spare) < spareCount {
		q.spare = append(q.spare, c)
	}
}

func (q *inlet) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *inlet) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
