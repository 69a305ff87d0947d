// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"encoding/binary"
	"math"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// Offsets in a frame with an IPv4 header without options and a TCP header.
const (
	atIP       = frame.MinLen
	atTOS      = atIP + 1
	atLength   = atIP + 2
	atFragment = atIP + 6
	atProtocol = atIP + 9
	atChecksum = atIP + 10
	atAddress  = atIP + 12 // source, then destination
	atTCP      = atIP + header.IPv4MinimumSize
	atSeq      = atTCP + 4
	atAck      = atTCP + 8
	atOffset   = atTCP + 12
	atFlags    = atTCP + 13
	atWindow   = atTCP + 14
	atOptions  = atTCP + header.TCPMinimumSize
)

// maxHeld is how many flows are coalesced at a time.
const maxHeld = 8

// coalescer joins the TCP segments of a chunk that follow each other in their connections, because nearly all of the
// stack's work is per packet: a hundred full frames cost it as much as one. Of pure acknowledgements only the last is passed
// on. Whatever is not plain in a segment (a flag, an option, a gap, an acknowledgement that is repeated or selective) goes to
// the stack as it came, and in its order within the connection.
type coalescer struct {
	held [maxHeld]held
	n    int
}

// held is a packet that waits for its continuation.
type held struct {
	frame    []byte   // the first segment's; of pure acknowledgements the last one's
	header   int      // Ethernet, IPv4 and TCP, bytes
	payloads [][]byte // none: a pure acknowledgement
	size     int      // of all payloads, bytes
}

// plain tells whether f, an IPv4 frame that inspect let through, can be held at all, and how long its headers and its
// payload are.
func plain(f []byte) (hdr, payload int, ok bool) {
	if len(f) < atOptions || f[atIP] != 0x45 || f[atProtocol] != uint8(header.TCPProtocolNumber) {
		return 0, 0, false
	}
	if f[atFragment]&^0x40 != 0 || f[atFragment+1] != 0 { // all but "don't fragment"
		return 0, 0, false
	}
	flags := header.TCPFlags(f[atFlags])
	if flags&^header.TCPFlagPsh != header.TCPFlagAck {
		return 0, 0, false
	}
	hdr = atTCP + int(f[atOffset]>>4)*4
	end := atIP + int(binary.BigEndian.Uint16(f[atLength:]))
	if hdr < atOptions || hdr > end || end > len(f) {
		return 0, 0, false
	}
	payload = end - hdr
	o := f[atOptions:hdr]
	usual := len(o) == 0 || len(o) == 12 && binary.BigEndian.Uint32(o) == 0x0101080a // none, or timestamps as every system writes them
	return hdr, payload, payload > 0 || flags == header.TCPFlagAck && usual
}

// find returns the packet that is held of the connection that f belongs to, nil if there is none.
func (c *coalescer) find(f []byte) *held {
	if len(f) >= atOptions {
		for i := range c.held[:c.n] {
			h := &c.held[i]
			if bytes.Equal(f[atAddress:atTCP+4], h.frame[atAddress:atTCP+4]) && f[atProtocol] == h.frame[atProtocol] {
				return h
			}
		}
	}
	return nil
}

// join adds f to the packet that it continues, if that is held. Such a frame needs no inspection: what inspect looks at is as
// in the one before it.
func (c *coalescer) join(f []byte) bool {
	h := c.find(f)
	if h == nil {
		return false
	}
	hdr, payload, ok := plain(f)
	if !ok || hdr != h.header || !bytes.Equal(f[:atLength], h.frame[:atLength]) ||
		!bytes.Equal(f[atFragment:atChecksum], h.frame[atFragment:atChecksum]) {
		return false
	}
	if payload == 0 {
		return h.replace(f)
	}
	return h.extend(f, payload)
}

// replace puts a pure acknowledgement in the place of an older one.
func (h *held) replace(f []byte) bool {
	newer := int32(binary.BigEndian.Uint32(f[atAck:]) - binary.BigEndian.Uint32(h.frame[atAck:]))
	if len(h.payloads) > 0 || newer <= 0 || !bytes.Equal(f[atSeq:atAck], h.frame[atSeq:atAck]) {
		return false
	}
	h.frame = f
	return true
}

// extend appends the payload of a segment.
func (h *held) extend(f []byte, payload int) bool {
	next := binary.BigEndian.Uint32(h.frame[atSeq:]) + uint32(h.size)
	if len(h.payloads) == 0 || binary.BigEndian.Uint32(f[atSeq:]) != next || h.header-atIP+h.size+payload > math.MaxUint16 ||
		!bytes.Equal(f[atAck:atFlags], h.frame[atAck:atFlags]) || !bytes.Equal(f[atWindow:atWindow+2], h.frame[atWindow:atWindow+2]) ||
		!bytes.Equal(f[atOptions:h.header], h.frame[atOptions:h.header]) {
		return false
	}
	h.payloads = append(h.payloads, f[h.header:h.header+payload])
	h.size += payload
	h.frame[atFlags] |= f[atFlags]
	return true
}

// hold keeps f until flush, if it can be continued. There is room, and nothing is held of its connection.
func (c *coalescer) hold(f []byte) bool {
	hdr, payload, ok := plain(f)
	if !ok {
		return false
	}
	h := &c.held[c.n]
	c.n++
	h.frame, h.header, h.size, h.payloads = f, hdr, payload, h.payloads[:0]
	if payload > 0 {
		h.payloads = append(h.payloads, f[hdr:hdr+payload])
	}
	return true
}

// packet is what is held, without the Ethernet header. The caller owns it.
func (h *held) packet() *stack.PacketBuffer {
	f := h.frame
	if len(h.payloads) < 2 {
		return newPacket(f[atIP:])
	}
	length := h.header - atIP + h.size
	binary.BigEndian.PutUint16(f[atLength:], uint16(length)) // no check of the checksum follows
	v := buffer.NewView(length)
	_, _ = v.Write(f[atIP:h.header])
	for _, p := range h.payloads {
		_, _ = v.Write(p)
	}
	return stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(v)})
}

// blocks tells whether f, which was not joined, has to wait for a flush: something of its connection is held, or nothing more
// can be.
func (c *coalescer) blocks(f []byte) bool { return c.n == maxHeld || c.find(f) != nil }

// clear forgets what is held.
func (c *coalescer) clear() {
	for i := range c.held[:c.n] {
		h := &c.held[i]
		h.frame = nil
		clear(h.payloads)
	}
	c.n = 0
}

// toStack passes f to the stack, now or with what continues it.
func (g *gateway) toStack(src uint64, f []byte) {
	if g.joined.blocks(f) {
		g.flush(src)
	}
	if !g.joined.hold(f) {
		g.engine.deliver(src, f)
	}
}

// flush passes to the stack what was held.
func (g *gateway) flush(src uint64) {
	for i := range g.joined.held[:g.joined.n] { // in the order in which it came
		g.engine.deliverPacket(src, header.IPv4ProtocolNumber, g.joined.held[i].packet())
	}
	g.joined.clear()
}
