// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Lengths in bytes and field values of Ethernet, ARP (RFC 826), IPv4 (RFC 791), UDP (RFC 768) and BOOTP (RFC 951).
const (
	EthernetLen = 14
	UDPLen      = 8

	arpLen   = 28
	ipv4Len  = 20
	bootpLen = 236 // the fixed part, up to the magic cookie

	TypeIPv4 = 0x0800
	TypeARP  = 0x0806
	ProtoUDP = 17

	OpRequest = 1 // ARP request, BOOTREQUEST
	OpReply   = 2 // ARP reply, BOOTREPLY

	PortServer = 67
	PortClient = 68
)

// magicCookie begins the options of a DHCP message (RFC 2131 section 3).
const magicCookie = 0x63825363

// DHCP option codes (RFC 2132).
const (
	optionPad         = 0
	optionHostname    = 12
	optionRequestedIP = 50
	optionLeaseTime   = 51
	optionType        = 53
	optionEnd         = 255
)

// Kind is a DHCP message type (RFC 2132 section 9.6); zero is none.
type Kind uint8

// The kinds of DHCP messages.
const (
	DISCOVER Kind = iota + 1
	OFFER
	REQUEST
	DECLINE
	ACK
	NAK
	RELEASE
	kindInform
)

var kindNames = [...]string{"none", "DISCOVER", "OFFER", "REQUEST", "DECLINE", "ACK", "NAK", "RELEASE", "INFORM"}

// String is the message type's name as in RFC 2131 without the leading DHCP.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// A MAC is an Ethernet address as a number; zero is none.
type MAC uint64

// MACOf is the address at the head of b, none if b is shorter.
func MACOf(b []byte) MAC {
	if len(b) < 6 {
		return 0
	}
	return MAC(binary.BigEndian.Uint16(b))<<32 | MAC(binary.BigEndian.Uint32(b[2:]))
}

// IsStation reports whether m can be the address of one station.
func (m MAC) IsStation() bool { return m != 0 && m>>40&1 == 0 }

// Hardware is m as net has it, nil for none.
func (m MAC) Hardware() net.HardwareAddr {
	if m == 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(m))[2:]
}

// Usable reports whether ip, an IPv4 address, can be that of one host.
func Usable(ip netip.Addr) bool {
	b := ip.As4()
	return b[0] != 0 && b[0] != 127 && b[0] < 224
}

// An arpPacket is an ARP packet for Ethernet and IPv4.
type arpPacket struct {
	Op             uint16
	MAC            MAC // the sender's
	Sender, Target netip.Addr
}

// ParseARP reads the frame f. It reports false if that is no ARP, cut, or for another kind of hardware or addresses.
func ParseARP(f []byte) (a arpPacket, ok bool) {
	const ethernetIPv4 = 0x0001_0800_0604 // hardware 1, protocol IPv4, address lengths 6 and 4
	if len(f) < EthernetLen+arpLen || binary.BigEndian.Uint16(f[12:]) != TypeARP {
		return a, false
	}
	p := f[EthernetLen:]
	if binary.BigEndian.Uint64(p)>>16 != ethernetIPv4 {
		return a, false
	}
	return arpPacket{binary.BigEndian.Uint16(p[6:]), MACOf(p[8:]), ip4(p[14:]), ip4(p[24:])}, true
}

// ParseIPv4 takes the frame f, whose type is IPv4, apart, without what pads it. It reports false if the lengths do not fit.
func ParseIPv4(f []byte) (header, payload []byte, ok bool) {
	if len(f) < EthernetLen+ipv4Len || f[EthernetLen]>>4 != 4 {
		return nil, nil, false
	}
	p := f[EthernetLen:]
	n, total := int(p[0]&15)*4, int(binary.BigEndian.Uint16(p[2:]))
	if n < ipv4Len || total < n || total > len(p) {
		return nil, nil, false
	}
	return p[:n], p[n:total], true
}

// A message is what is taken from a DHCP message.
type message struct {
	Op                              byte
	Kind                            Kind // none: BOOTP
	XID                             uint32
	MAC                             MAC           // chaddr
	Client, Yours, Relay, Requested netip.Addr    // the last is option 50; 0.0.0.0: not said
	Lease                           time.Duration // option 51; Forever when absent, as for BOOTP
	hostname                        []byte        // option 12, in the frame
}

// Forever is the time of a lease that does not end.
const Forever = time.Duration(1<<63 - 1)

// ParseDHCP reads the UDP datagram u. It reports false for anything that is not a whole BOOTP message for Ethernet.
func ParseDHCP(u []byte) (m message, ok bool) {
	if len(u) < UDPLen {
		return m, false
	}
	n := int(binary.BigEndian.Uint16(u[4:]))
	if n < UDPLen+bootpLen || n > len(u) {
		return m, false
	}
	p := u[UDPLen:n]
	if p[1] != 1 || p[2] != 6 {
		return m, false
	}
	m = message{
		Op: p[0], XID: binary.BigEndian.Uint32(p[4:]), MAC: MACOf(p[28:]), Client: ip4(p[12:]), Yours: ip4(p[16:]), Relay: ip4(p[24:]),
		Requested: netip.IPv4Unspecified(), Lease: Forever,
	}
	if o := p[bootpLen:]; len(o) >= 4 && binary.BigEndian.Uint32(o) == magicCookie {
		m.options(o[4:])
	}
	return m, true
}

// options reads code, length, value triples up to the end option or to the first one that is cut.
func (m *message) options(b []byte) {
	for len(b) > 1 && b[0] != optionEnd {
		if b[0] == optionPad {
			b = b[1:]
			continue
		}
		n := 2 + int(b[1])
		if len(b) < n {
			return
		}
		m.option(b[0], b[2:n])
		b = b[n:]
	}
}

// option takes one option's value; one of the wrong length is ignored.
func (m *message) option(code byte, v []byte) {
	switch {
	case code == optionType && len(v) == 1:
		m.Kind = Kind(v[0])
	case code == optionRequestedIP && len(v) == 4:
		m.Requested = ip4(v)
	case code == optionLeaseTime && len(v) == 4:
		if s := binary.BigEndian.Uint32(v); s != 1<<32-1 { // that is for ever (RFC 2132 section 9.2)
			m.Lease = time.Duration(s) * time.Second
		}
	case code == optionHostname:
		m.hostname = v
	}
}

// dhcpIn is the UDP datagram in the frame f if it goes from a DHCP client to a server or back, else nil. Fragments are none.
func dhcpIn(f []byte) []byte {
	if len(f) < EthernetLen+ipv4Len || binary.BigEndian.Uint16(f[12:]) != TypeIPv4 || f[EthernetLen+9] != ProtoUDP {
		return nil
	}
	header, u, ok := ParseIPv4(f)
	if !ok || len(u) < UDPLen || binary.BigEndian.Uint16(header[6:])&0x3fff != 0 {
		return nil
	}
	switch binary.BigEndian.Uint32(u) {
	case PortClient<<16 | PortServer, PortServer<<16 | PortClient:
		return u
	}
	return nil
}

func ip4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }
