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
)

// outlet carries frames from the gateway to the bridge. The stack's goroutines append, one goroutine sends whatever has
// gathered as one batch: the bridge sees one sender, and clients see few large writes under load.
type outlet struct {
	max   int // longest frame, bytes
	send  func(frame.Batch)
	drops *drops

	mu     sync.Mutex
	buf    []byte
	n      int // frames in buf
	closed bool

	wake chan struct{} // one token: something waits, or closed
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
	o.mu.Lock()
	n := min(s.len(), (outletLimit-len(o.buf))/(frame.PrefixLen+s.size()))
	if o.closed {
		n = 0
	}
	o.buf = s.appendTo(o.buf, n)
	o.n += n
	o.mu.Unlock()
	o.drops.outFull.Add(uint64(s.len()))
	if n > 0 {
		o.signal()
	}
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

// run sends until close.
func (o *outlet) run() {
	var sending []byte
	for range o.wake {
		o.mu.Lock()
		sending, o.buf = o.buf, sending[:0]
		n := o.n
		o.n = 0
		closed := o.closed
		o.mu.Unlock()
		if n > 0 {
			o.send(frame.NewBatch(sending, n))
		}
		if closed {
			return
		}
		if cap(sending) > outletKeep {
			sending = nil
		}
	}
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
