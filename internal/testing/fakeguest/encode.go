// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
)

// TCP flags.
const (
	TCPSyn = 2
	TCPRst = 4
	TCPAck = 16
)

// EthernetFrame is a frame without prefix, padding and FCS.
func EthernetFrame(dst, src net.HardwareAddr, etherType uint16, payload []byte) []byte {
	f := slices.Concat([]byte(dst), src, []byte{byte(etherType >> 8), byte(etherType)}, payload)
	return f
}

// ARPPacket is the payload of an ARP frame.
func ARPPacket(op uint16, senderMAC net.HardwareAddr, sender netip.Addr, targetMAC net.HardwareAddr, target netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, byte(op >> 8), byte(op)}
	return slices.Concat(b, senderMAC, sender.AsSlice(), targetMAC, target.AsSlice())
}

// IPv4Packet is the payload of an IPv4 frame: a header without options, TTL 64, and data.
func IPv4Packet(src, dst netip.Addr, proto byte, data []byte) []byte {
	b := make([]byte, 20, 20+len(data))
	b[0], b[8], b[9] = 0x45, 64, proto
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(data)))
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum(0, b))
	return append(b, data...)
}

// UDPPacket is the payload of an IPv4 frame that holds a UDP datagram.
func UDPPacket(src, dst netip.AddrPort, data []byte) []byte {
	b := make([]byte, 8, 8+len(data))
	binary.BigEndian.PutUint16(b, src.Port())
	binary.BigEndian.PutUint16(b[2:], dst.Port())
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(data)))
	b = append(b, data...)
	sum := checksum(pseudo(src.Addr(), dst.Addr(), ProtoUDP, len(b)), b)
	if sum == 0 {
		sum = 0xffff // 0 means none (RFC 768)
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	return IPv4Packet(src.Addr(), dst.Addr(), ProtoUDP, b)
}

// TCPPacket is the payload of an IPv4 frame that holds a TCP segment without options.
func TCPPacket(src, dst netip.AddrPort, flags byte, seq, ack uint32, data ...byte) []byte {
	b := append(make([]byte, 20), data...)
	binary.BigEndian.PutUint16(b, src.Port())
	binary.BigEndian.PutUint16(b[2:], dst.Port())
	binary.BigEndian.PutUint32(b[4:], seq)
	binary.BigEndian.PutUint32(b[8:], ack)
	b[12], b[13] = 5<<4, flags
	binary.BigEndian.PutUint16(b[14:], 0xffff) // window
	binary.BigEndian.PutUint16(b[16:], checksum(pseudo(src.Addr(), dst.Addr(), protoTCP, len(b)), b))
	return IPv4Packet(src.Addr(), dst.Addr(), protoTCP, b)
}

// ICMPMessage is an ICMP echo request or reply.
func ICMPMessage(icmpType byte, id, seq uint16, data []byte) []byte {
	b := []byte{icmpType, 0, 0, 0, byte(id >> 8), byte(id), byte(seq >> 8), byte(seq)}
	b = append(b, data...)
	binary.BigEndian.PutUint16(b[2:], checksum(0, b))
	return b
}

// pseudo is the sum over the pseudo header of UDP and TCP.
func pseudo(src, dst netip.Addr, proto byte, n int) uint32 {
	b := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, proto, byte(n >> 8), byte(n)})
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	return sum
}

// checksum is the Internet checksum (RFC 1071) of b on top of sum: 0 over data that holds a right one.
func checksum(sum uint32, b []byte) uint16 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
