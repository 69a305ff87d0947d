// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"encoding/binary"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// outletLimit bounds what waits for the bridge, in bytes of wire form. The bridge never blocks, so this is reached
	// only when the processor is far behind.
	outletLimit = 2 << 20
	// outletKeep is the largest buffer that is kept for reuse, in bytes.
	outletKeep = 256 << 10
	// maxSegments is how many frames are cut while others wait for the outlet: a guest may ask for tiny ones.
	maxSegments = 64
)

// outlet carries frames from the gateway to the bridge. The stack's goroutines append, and one of them sends whatever has
// gathered as one batch: the bridge sees one sender at a time, and clients see few large writes under load. Who has a large
// packet sends himself, since the bridge never blocks and waking another goroutine for it costs more; what is small, mostly
// acknowledgements, gathers for the outlet's own goroutine.
type outlet struct {
	max   int // longest frame, bytes
	send  func(frame.Batch)
	drops *drops

	mu     sync.Mutex
	buf    []byte
	n      int // frames in buf
	closed bool

	wake chan struct{} // one token: something waits, or closed

	turn    sync.Mutex // held by whoever sends
	sending []byte     // swapped with buf, by whoever sends
}

func newOutlet(maxFrame int, send func(frame.Batch), d *drops) *outlet {
	return &outlet{max: maxFrame, send: send, drops: d, wake: make(chan struct{}, 1)}
}

// putPacket queues a packet of the stack, with its Ethernet header.
func (o *outlet) putPacket(pkt *stack.PacketBuffer) {
	if pkt.GSOOptions.Type != stack.GSONone {
		o.putSegments(pkt)
		return
	}
	o.put(pkt.Size(), pkt.AsSlices()...)
}

// putSegments queues a TCP packet that is still to be cut, or as much of it as there is room for.
func (o *outlet) putSegments(pkt *stack.PacketBuffer) {
	var s segments
	s.init(pkt)
	if s.size() > o.max {
		o.drops.malformed.Add(uint64(s.len()))
		return
	}
	for s.len() > 0 {
		o.mu.Lock()
		n := min(s.len(), maxSegments, (outletLimit-len(o.buf))/(frame.PrefixLen+s.size()))
		if o.closed {
			n = 0
		}
		o.buf = s.appendTo(o.buf, n)
		o.n += n
		o.mu.Unlock()
		if n == 0 {
			break
		}
	}
	o.drops.outFull.Add(uint64(s.len()))
	o.drain()
}

// put queues a frame of size bytes that is given in parts.
func (o *outlet) put(size int, parts ...[]byte) {
	if size < frame.MinLen || size > o.max {
		o.drops.malformed.Add(1)
		return
	}
	o.mu.Lock()
	if o.closed || len(o.buf)+frame.PrefixLen+size > outletLimit {
		o.mu.Unlock()
		o.drops.outFull.Add(1)
		return
	}
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(size))
	for _, p := range parts {
		o.buf = append(o.buf, p...)
	}
	o.n++
	o.mu.Unlock()
	o.signal()
}

// run sends what others leave to it, until close.
func (o *outlet) run() {
	for range o.wake {
		o.drain()
		o.mu.Lock()
		closed := o.closed
		o.mu.Unlock()
		if closed {
			return
		}
	}
}

// maxTurns is how often in a row a goroutine of the stack sends what others left to it meanwhile.
const maxTurns = 4

// drain sends what has gathered, unless somebody else does already: then it is sent by him.
func (o *outlet) drain() {
	for range maxTurns {
		if !o.turn.TryLock() {
			return
		}
		o.mu.Lock()
		o.sending, o.buf = o.buf, o.sending[:0]
		n := o.n
		o.n = 0
		o.mu.Unlock()
		if n > 0 {
			o.send(frame.NewBatch(o.sending, n))
		}
		if cap(o.sending) > outletKeep {
			o.sending = nil
		}
		o.turn.Unlock()
		// Whoever did not get the turn since then relies on us.
		o.mu.Lock()
		n = o.n
		o.mu.Unlock()
		if n == 0 {
			return
		}
	}
	o.signal()
}

func (o *outlet) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.signal()
}

func (o *outlet) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
