// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// Broadcast is the address of all stations.
var Broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// errCut is returned by Parse for a packet that ends early.
var errCut = errors.New("packet is cut")

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
		return Packet{}, fmt.Errorf("parse Ethernet header of %d bytes: %w", len(f), errCut)
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

func (p *Packet) parseARP() error {
	b := p.Payload
	if len(b) < 28 {
		return fmt.Errorf("parse ARP packet of %d bytes: %w", len(b), errCut)
	}
	if binary.BigEndian.Uint64(b)>>16 != 0x0001_0800_0604 {
		return fmt.Errorf("parse ARP packet: not Ethernet and IPv4: % x", b[:6])
	}
	p.ARPOp = binary.BigEndian.Uint16(b[6:])
	p.SenderMAC = b[8:14:14]
	p.SrcIP, p.DstIP = netip.AddrFrom4([4]byte(b[14:18])), netip.AddrFrom4([4]byte(b[24:28]))
	return nil
}

func (p *Packet) parseIPv4() error {
	b := p.Payload
	if len(b) < 20 || b[0]>>4 != 4 {
		return fmt.Errorf("parse IPv4 header: %w", errCut)
	}
	hl, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if hl < 20 || total < hl || total > len(b) {
		return fmt.Errorf("parse IPv4 header: header %d, total %d, present %d bytes: %w", hl, total, len(b), errCut)
	}
	if sum := checksum(0, b[:hl]); sum != 0 {
		return fmt.Errorf("parse IPv4 header: checksum is off by %#04x", sum)
	}
	p.SrcIP, p.DstIP = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	p.Proto, p.Data = b[9], b[hl:total]
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return nil // a fragment
	}
	switch p.Proto {
	case ProtoUDP:
		return p.parseUDP()
	case protoTCP:
		return p.parseTCP()
	case ProtoICMP:
		return p.parseICMP()
	}
	return nil
}

func (p *Packet) parseUDP() error {
	b := p.Data
	if len(b) < 8 {
		return fmt.Errorf("parse UDP header: %w", errCut)
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n < 8 || n > len(b) {
		return fmt.Errorf("parse UDP header: length %d of %d bytes: %w", n, len(b), errCut)
	}
	if b[6]|b[7] != 0 {
		if sum := checksum(pseudo(p.SrcIP, p.DstIP, ProtoUDP, n), b[:n]); sum != 0 {
			return fmt.Errorf("parse UDP header: checksum is off by %#04x", sum)
		}
	}
	p.SrcPort, p.DstPort, p.Data = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), b[8:n]
	return nil
}

func (p *Packet) parseTCP() error {
	b := p.Data
	if len(b) < 20 || int(b[12]>>4)*4 < 20 || int(b[12]>>4)*4 > len(b) {
		return fmt.Errorf("parse TCP header: %w", errCut)
	}
	if sum := checksum(pseudo(p.SrcIP, p.DstIP, protoTCP, len(b)), b); sum != 0 {
		return fmt.Errorf("parse TCP header: checksum is off by %#04x", sum)
	}
	p.SrcPort, p.DstPort, p.TCPFlags = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), b[13]
	p.TCPSeq = binary.BigEndian.Uint32(b[4:])
	p.Data = b[int(b[12]>>4)*4:]
	return nil
}

func (p *Packet) parseICMP() error {
	b := p.Data
	if len(b) < 8 {
		return fmt.Errorf("parse ICMP header: %w", errCut)
	}
	if sum := checksum(0, b); sum != 0 {
		return fmt.Errorf("parse ICMP header: checksum is off by %#04x", sum)
	}
	p.ICMPType, p.ICMPCode = b[0], b[1]
	p.EchoID, p.EchoSeq, p.Data = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:]), b[8:]
	return nil
}
