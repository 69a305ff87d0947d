// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// outletLimit bounds the frames that wait for the pair, in bytes of wire form. The daemon always reads, so this is reached
	// only when the processor is far behind.
	outletLimit = 2 << 20
	// outletKeep is the largest buffer that is kept for reuse, in bytes.
	outletKeep = 1 << 20
	// maxSegments is how many frames are cut while others wait for the outlet: a guest may ask for tiny ones.
	maxSegments = 64
)

// outlet carries frames and messages from the gateway to the daemon. The stack's goroutines append, and one of them writes whatever
// has gathered at once, so that clients see few large writes under load. A goroutine with a large packet writes what the socket
// takes without waiting: waking another one for it costs more. What is small, mostly acknowledgements, gathers for the outlet's own
// goroutine, which alone waits for the socket.
type outlet struct {
	max   int // longest frame, bytes
	drops *drops
	// write writes what the pair takes and reports how much that was; with wait it waits until that is something.
	write func(b []byte, wait bool) (int, error)

	mu  sync.Mutex
	buf []byte

	wake chan struct{} // one token: something waits

	turn    sync.Mutex // held by the goroutine that writes
	sending []byte     // swapped with buf, by the goroutine that writes
	left    []byte     // of sending, not written yet
}

func newOutlet(maxFrame int, write func([]byte, bool) (int, error), d *drops) *outlet {
	return &outlet{max: maxFrame, write: write, drops: d, wake: make(chan struct{}, 1)}
}

// putMessage queues a message.
func (o *outlet) putMessage(kind byte, body any) {
	o.mu.Lock()
	o.buf = AppendMessage(o.buf, kind, body)
	o.mu.Unlock()
	o.signal()
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
	defer s.data.Release()
	if s.size() > o.max {
		o.drops.malformed.Add(uint64(s.len()))
		return
	}
	for s.len() > 0 {
		o.mu.Lock()
		n := min(s.len(), maxSegments, (outletLimit-len(o.buf))/(frame.PrefixLen+s.size()))
		o.buf = s.appendTo(o.buf, max(0, n))
		o.mu.Unlock()
		if n <= 0 {
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
	if len(o.buf)+frame.PrefixLen+size > outletLimit {
		o.mu.Unlock()
		o.drops.outFull.Add(1)
		return
	}
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(size))
	for _, p := range parts {
		o.buf = append(o.buf, p...)
	}
	o.mu.Unlock()
	o.signal()
}

// run writes what others leave to it, until the end of the pair.
func (o *outlet) run() {
	for range o.wake {
		o.turn.Lock()
		for o.next() {
			if o.send(true) != nil {
				return // with the turn: nothing can be written any more
			}
		}
		o.turn.Unlock()
	}
}

// maxTurns is how often in a row a goroutine of the stack writes what others left to it meanwhile.
const maxTurns = 4

// drain writes what has gathered and the pair takes, unless another goroutine does already: then what is left is run's.
func (o *outlet) drain() {
	if !o.turn.TryLock() {
		o.signal()
		return
	}
	turns := 0
	for turns < maxTurns && o.next() && o.send(false) == nil && len(o.left) == 0 {
		turns++
	}
	if turns == maxTurns || len(o.left) > 0 {
		o.signal()
	}
	o.turn.Unlock()
}

// next reports whether there is something to write. The caller has the turn.
func (o *outlet) next() bool {
	if len(o.left) == 0 {
		if cap(o.sending) > outletKeep {
			o.sending = nil
		}
		o.mu.Lock()
		o.sending, o.buf = o.buf, o.sending[:0]
		o.mu.Unlock()
		o.left = o.sending
	}
	return len(o.left) > 0
}

// send writes from left. The caller has the turn.
func (o *outlet) send(wait bool) error {
	n, err := o.write(o.left, wait)
	o.left = o.left[n:]
	return err
}

func (o *outlet) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// maxHeaders is the longest Ethernet, IPv4 and TCP header together, in bytes.
const maxHeaders = frame.MinLen + header.IPv4MaximumHeaderSize + header.TCPHeaderMaximumSize

// segments cuts a large TCP packet of the stack into frames. The stack leaves that to its interface, and the checksums with
// it (GSO), because nearly all of its work is per packet: it passes on up to 64 KiB at once.
type segments struct {
	hdr    [maxHeaders]byte // Ethernet, IPv4 and TCP header of the first one
	hdrLen int
	tcpAt  int           // offset of the TCP header
	mss    int           // payload of all but the last one, bytes
	data   buffer.Buffer // payload of all
	offset int           // of the next one's payload
	count  int           // done so far
}

// init prepares to cut pkt, which has all its headers.
func (s *segments) init(pkt *stack.PacketBuffer) {
	s.hdrLen = copy(s.hdr[:], pkt.LinkHeader().Slice())
	s.hdrLen += copy(s.hdr[s.hdrLen:], pkt.NetworkHeader().Slice())
	s.tcpAt = s.hdrLen
	s.hdrLen += copy(s.hdr[s.hdrLen:], pkt.TransportHeader().Slice())
	s.data = pkt.Data().ToBuffer()
	s.mss = cmp.Or(int(pkt.GSOOptions.MSS), s.payload())
}

// payload is how much is left of it, in bytes.
func (s *segments) payload() int { return int(s.data.Size()) - s.offset }

// len is how many segments are left.
func (s *segments) len() int {
	if s.payload() == 0 {
		return max(0, 1-s.count)
	}
	return (s.payload() + s.mss - 1) / s.mss
}

// size is how long the longest frame is, in bytes.
func (s *segments) size() int { return s.hdrLen + min(s.mss, s.payload()) }

// appendTo appends the next n segments, of those that are left, to buf in wire form.
func (s *segments) appendTo(buf []byte, n int) []byte {
	buf = slices.Grow(buf, n*(frame.PrefixLen+s.size()))
	for range n {
		size := s.size()
		buf = binary.BigEndian.AppendUint32(buf, uint32(size))
		f := buf[len(buf) : len(buf)+size]
		_, _ = s.data.ReadAt(f[copy(f, s.hdr[:s.hdrLen]):], int64(s.offset))
		s.finish(f)
		buf = buf[:len(buf)+size]
		s.offset += size - s.hdrLen
		s.count++
	}
	return buf
}

// finish sets what differs from the first segment's header, and the checksums.
func (s *segments) finish(f []byte) {
	ip, t := header.IPv4(f[frame.MinLen:]), header.TCP(f[s.tcpAt:])
	ip.SetTotalLength(uint16(len(ip)))
	ip.SetID(ip.ID() + uint16(s.count))
	ip.SetChecksum(0)
	ip.SetChecksum(^ip.CalculateChecksum())
	t.SetSequenceNumber(t.SequenceNumber() + uint32(s.offset))
	if s.payload() > len(f)-s.hdrLen { // FIN and PSH are the last one's
		t.SetFlags(uint8(t.Flags() &^ (header.TCPFlagFin | header.TCPFlagPsh)))
	}
	t.SetChecksum(0)
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, ip.SourceAddress(), ip.DestinationAddress(), uint16(len(t)))
	t.SetChecksum(^checksum.Checksum(t, sum))
}
