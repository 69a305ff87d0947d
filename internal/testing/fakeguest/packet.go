// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// EtherTypes.
const (
	TypeIPv4 = 0x0800
	TypeARP  = 0x0806
	// TypeTest is the EtherType of frames without a meaning: IEEE's local experimental one.
	TypeTest = 0x88b5
)

// IPv4 protocol numbers.
const (
	ProtoICMP = 1
	protoTCP  = 6
	ProtoUDP  = 17
)

// ICMP types, and ARP operations.
const (
	EchoReply   = 0
	Unreachable = 3
	EchoRequest = 8

	ARPRequest = 1
	ARPReply   = 2
)

// TCP flags.
const (
	TCPSyn = 2
	TCPRst = 4
	TCPAck = 16
)

// Broadcast is the address of all stations.
var Broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// errDamaged is returned by Parse for a packet that ends early or has a wrong checksum.
var errDamaged = errors.New("packet is cut or damaged")

// A Packet is a parsed frame. Fields of layers that it does not have are zero. Slices point into the frame.
type Packet struct {
	Dst, Src net.HardwareAddr
	Type     uint16
	Payload  []byte // behind the Ethernet header, padding included

	// ARP, for Ethernet and IPv4 only.
	ARPOp     uint16
	SenderMAC net.HardwareAddr

	// IPv4; for ARP the sender's and the target's address.
	SrcIP, DstIP netip.Addr
	Proto        byte

	// UDP and TCP.
	SrcPort, DstPort uint16
	TCPFlags         byte
	TCPSeq           uint32

	// ICMP.
	ICMPType, ICMPCode byte
	EchoID, EchoSeq    uint16

	Data []byte // behind the innermost header
}

// To is where a UDP or TCP packet goes.
func (p *Packet) To() netip.AddrPort { return netip.AddrPortFrom(p.DstIP, p.DstPort) }

// From is where a UDP or TCP packet comes from.
func (p *Packet) From() netip.AddrPort { return netip.AddrPortFrom(p.SrcIP, p.SrcPort) }

// Parse takes f apart and verifies lengths and checksums. Layers it does not know are left in Payload or Data.
func Parse(f []byte) (Packet, error) {
	if len(f) < 14 {
		return Packet{}, fmt.Errorf("parse Ethernet header of %d bytes: %w", len(f), errDamaged)
	}
	p := Packet{Dst: f[0:6:6], Src: f[6:12:12], Type: binary.BigEndian.Uint16(f[12:]), Payload: f[14:]}
	var err error
	switch p.Type {
	case TypeARP:
		err = p.parseARP()
	case TypeIPv4:
		err = p.parseIPv4()
	default:
		p.Data = p.Payload
	}
	return p, err
}

// ethernetIPv4 begins the ARP packets for Ethernet and IPv4.
var ethernetIPv4 = []byte{0, 1, 8, 0, 6, 4}

func (p *Packet) parseARP() error {
	b := p.Payload
	if len(b) < header.ARPSize || !bytes.HasPrefix(b, ethernetIPv4) {
		return fmt.Errorf("parse ARP packet % x: %w", b, errDamaged)
	}
	p.ARPOp = binary.BigEndian.Uint16(b[6:])
	p.SenderMAC = b[8:14:14]
	p.SrcIP, p.DstIP = netip.AddrFrom4([4]byte(b[14:18])), netip.AddrFrom4([4]byte(b[24:28]))
	return nil
}

func (p *Packet) parseIPv4() error {
	ip := header.IPv4(p.Payload)
	if !ip.IsValid(len(ip)) || !ip.IsChecksumValid() {
		return fmt.Errorf("parse IPv4 header: %w", errDamaged)
	}
	p.SrcIP, p.DstIP = netip.AddrFrom4(ip.SourceAddress().As4()), netip.AddrFrom4(ip.DestinationAddress().As4())
	p.Proto, p.Data = ip.Protocol(), ip.Payload()
	if ip.More() || ip.FragmentOffset() != 0 {
		return nil
	}
	valid := true
	switch p.Proto {
	case ProtoUDP:
		valid = p.parseUDP(ip)
	case protoTCP:
		valid = p.parseTCP(ip)
	case ProtoICMP:
		valid = p.parseICMP()
	}
	if !valid {
		return fmt.Errorf("parse packet of IPv4 protocol %d: %w", p.Proto, errDamaged)
	}
	return nil
}

func (p *Packet) parseUDP(ip header.IPv4) bool {
	u := header.UDP(p.Data)
	if len(u) < header.UDPMinimumSize || u.Length() < header.UDPMinimumSize || int(u.Length()) > len(u) {
		return false
	}
	p.SrcPort, p.DstPort, p.Data = u.SourcePort(), u.DestinationPort(), u[header.UDPMinimumSize:u.Length()]
	return u.Checksum() == 0 || u.IsChecksumValid(ip.SourceAddress(), ip.DestinationAddress(), checksum.Checksum(p.Data, 0))
}

func (p *Packet) parseTCP(ip header.IPv4) bool {
	h := header.TCP(p.Data)
	if len(h) < header.TCPMinimumSize || h.DataOffset() < header.TCPMinimumSize || int(h.DataOffset()) > len(h) {
		return false
	}
	p.SrcPort, p.DstPort, p.TCPFlags, p.TCPSeq, p.Data = h.SourcePort(), h.DestinationPort(), byte(h.Flags()), h.SequenceNumber(), h.Payload()
	return h.IsChecksumValid(ip.SourceAddress(), ip.DestinationAddress(), checksum.Checksum(p.Data, 0), uint16(len(p.Data)))
}

func (p *Packet) parseICMP() bool {
	h := header.ICMPv4(p.Data)
	if len(h) < header.ICMPv4MinimumSize {
		return false
	}
	p.ICMPType, p.ICMPCode, p.EchoID, p.EchoSeq, p.Data = byte(h.Type()), byte(h.Code()), h.Ident(), h.Sequence(), h.Payload()
	return checksum.Checksum(h, 0) == 0xffff
}

// EthernetFrame is a frame without prefix, padding and FCS.
func EthernetFrame(dst, src net.HardwareAddr, etherType uint16, payload []byte) []byte {
	return slices.Concat(dst, src, []byte{byte(etherType >> 8), byte(etherType)}, payload)
}

// ARPPacket is the payload of an ARP frame.
func ARPPacket(op uint16, senderMAC net.HardwareAddr, sender netip.Addr, targetMAC net.HardwareAddr, target netip.Addr) []byte {
	return slices.Concat(ethernetIPv4, []byte{byte(op >> 8), byte(op)}, senderMAC, sender.AsSlice(), targetMAC, target.AsSlice())
}

// IPv4Packet is the payload of an IPv4 frame: a header without options, TTL 64, and data.
func IPv4Packet(src, dst netip.Addr, proto byte, data []byte) []byte {
	ip := header.IPv4(make([]byte, header.IPv4MinimumSize))
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(ip) + len(data)), TTL: 64, Protocol: proto,
		SrcAddr: tcpip.AddrFrom4(src.As4()), DstAddr: tcpip.AddrFrom4(dst.As4()),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	return append(ip, data...)
}

// pseudo is the sum over the pseudo header of UDP and TCP and what follows the header, n bytes long, of b.
func pseudo(src, dst netip.AddrPort, proto tcpip.TransportProtocolNumber, b []byte, n int) uint16 {
	sum := header.PseudoHeaderChecksum(proto, tcpip.AddrFrom4(src.Addr().As4()), tcpip.AddrFrom4(dst.Addr().As4()), uint16(len(b)))
	return checksum.Checksum(b[n:], sum)
}

// UDPPacket is the payload of an IPv4 frame that holds a UDP datagram.
func UDPPacket(src, dst netip.AddrPort, data []byte) []byte {
	u := header.UDP(append(make([]byte, header.UDPMinimumSize), data...))
	u.Encode(&header.UDPFields{SrcPort: src.Port(), DstPort: dst.Port(), Length: uint16(len(u))})
	sum := ^u.CalculateChecksum(pseudo(src, dst, ProtoUDP, u, header.UDPMinimumSize))
	if sum == 0 {
		sum = 0xffff // 0 means none (RFC 768)
	}
	u.SetChecksum(sum)
	return IPv4Packet(src.Addr(), dst.Addr(), ProtoUDP, u)
}

// TCPPacket is the payload of an IPv4 frame that holds a TCP segment without options.
func TCPPacket(src, dst netip.AddrPort, flags byte, seq, ack uint32, data ...byte) []byte {
	h := header.TCP(append(make([]byte, header.TCPMinimumSize), data...))
	h.Encode(&header.TCPFields{
		SrcPort: src.Port(), DstPort: dst.Port(), SeqNum: seq, AckNum: ack, DataOffset: header.TCPMinimumSize,
		Flags: header.TCPFlags(flags), WindowSize: 0xffff,
	})
	h.SetChecksum(^h.CalculateChecksum(pseudo(src, dst, protoTCP, h, header.TCPMinimumSize)))
	return IPv4Packet(src.Addr(), dst.Addr(), protoTCP, h)
}

// ICMPMessage is an ICMP echo request or reply.
func ICMPMessage(icmpType byte, id, seq uint16, data []byte) []byte {
	b := append([]byte{icmpType, 0, 0, 0, byte(id >> 8), byte(id), byte(seq >> 8), byte(seq)}, data...)
	header.ICMPv4(b).SetChecksum(^checksum.Checksum(b, 0))
	return b
}
