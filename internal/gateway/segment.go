// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/binary"
	"slices"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// maxHeaders is the longest Ethernet, IPv4 and TCP header together, in bytes.
const maxHeaders = frame.MinLen + header.IPv4MaximumHeaderSize + header.TCPHeaderMaximumSize

// segments cuts a large TCP packet of the stack into frames. The stack leaves that to its interface, and the checksums with
// it (GSO), because nearly all of its work is per packet: it passes on up to 64 KiB at once.
type segments struct {
	hdr     [maxHeaders]byte // Ethernet, IPv4 and TCP header of the first one
	hdrLen  int
	tcpAt   int // offset of the TCP header
	mss     int // payload of all but the last one, bytes
	payload int // bytes left
	part    []byte
	rest    *buffer.View // what follows part
	offset  int          // of the next one's payload
	count   int          // done so far
}

// init prepares to cut pkt, which has all its headers.
func (s *segments) init(pkt *stack.PacketBuffer) {
	s.hdrLen = copy(s.hdr[:], pkt.LinkHeader().Slice())
	s.hdrLen += copy(s.hdr[s.hdrLen:], pkt.NetworkHeader().Slice())
	s.tcpAt = s.hdrLen
	s.hdrLen += copy(s.hdr[s.hdrLen:], pkt.TransportHeader().Slice())
	s.payload = pkt.Data().Size()
	s.mss = int(pkt.GSOOptions.MSS)
	if s.mss == 0 {
		s.mss = s.payload
	}
	views, skip := pkt.AsViewList()
	s.rest = views.Front()
	for skip += s.hdrLen; s.rest != nil; skip -= len(s.part) {
		s.part, s.rest = s.rest.AsSlice(), s.rest.Next()
		if skip <= len(s.part) {
			s.part = s.part[skip:]
			break
		}
	}
}

// len is how many segments are left.
func (s *segments) len() int {
	if s.payload == 0 {
		return max(0, 1-s.count)
	}
	return (s.payload + s.mss - 1) / s.mss
}

// size is how long the longest frame is, in bytes.
func (s *segments) size() int { return s.hdrLen + min(s.mss, s.payload) }

// appendTo appends the next n segments, of those that are left, to buf in wire form.
func (s *segments) appendTo(buf []byte, n int) []byte {
	buf = slices.Grow(buf, n*(frame.PrefixLen+s.size()))
	for range n {
		length := min(s.mss, s.payload)
		buf = binary.BigEndian.AppendUint32(buf, uint32(s.hdrLen+length))
		start := len(buf)
		buf = append(buf, s.hdr[:s.hdrLen]...)
		buf = s.appendPayload(buf, length)
		s.payload -= length
		s.finish(buf[start:])
		s.offset += length
		s.count++
	}
	return buf
}

func (s *segments) appendPayload(buf []byte, n int) []byte {
	for n > len(s.part) {
		buf = append(buf, s.part...)
		n -= len(s.part)
		s.part, s.rest = s.rest.AsSlice(), s.rest.Next()
	}
	buf = append(buf, s.part[:n]...)
	s.part = s.part[n:]
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
	if s.payload > 0 { // FIN and PSH are the last one's
		t.SetFlags(uint8(t.Flags() &^ (header.TCPFlagFin | header.TCPFlagPsh)))
	}
	t.SetChecksum(0)
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, ip.SourceAddress(), ip.DestinationAddress(), uint16(len(t)))
	t.SetChecksum(^checksum.Checksum(t, sum))
}
