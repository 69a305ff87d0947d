// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Lengths in bytes and field values of Ethernet, ARP (RFC 826), IPv4 (RFC 791), UDP (RFC 768) and BOOTP (RFC 951).
const (
	ethernetLen = 14
	arpLen      = 28
	udpLen      = 8
	bootpLen    = 236 // the fixed part, up to the magic cookie

	typeIPv4 = 0x0800
	typeARP  = 0x0806
	protoUDP = 17

	opRequest = 1 // ARP request, BOOTREQUEST
	opReply   = 2 // ARP reply, BOOTREPLY

	portServer = 67
	portClient = 68
)

// magicCookie begins the options of a DHCP message (RFC 2131 section 3).
const magicCookie = 0x63825363

// DHCP option codes (RFC 2132).
const (
	optionPad         = 0
	optionHostname    = 12
	optionRequestedIP = 50
	optionType        = 53
	optionEnd         = 255
)

// maxHostname is the longest hostname that is kept, in bytes: one label (RFC 1035 section 2.3.4).
const maxHostname = 63

// Kind is a DHCP message type (RFC 2132 section 9.6); zero is none.
type Kind uint8

// The kinds of DHCP messages.
const (
	DISCOVER Kind = iota + 1
	OFFER
	REQUEST
	kindDecline
	ACK
	NAK
	kindRelease
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

// mac48 is the address at the head of b, marked as known. b holds at least 6 bytes.
func mac48(b []byte) uint64 {
	return macKnown | uint64(binary.BigEndian.Uint16(b))<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
}

// usable reports whether ip can be the address of one host.
func usable(ip netip.Addr) bool {
	b := ip.As4()
	return b[0] != 0 && b[0] != 127 && b[0] < 224
}

// claim is an address from an ARP packet.
type claim struct {
	addr   netip.Addr
	always bool // surely the sender's own address; otherwise it may answer for another (proxy ARP)
}

// arpSender is the address that the station mac claims with f, which is an Interesting ARP frame. A probe (RFC 5227, sender
// 0.0.0.0) claims nothing.
func arpSender(f []byte, mac uint64) (claim, bool) {
	p := f[ethernetLen : ethernetLen+arpLen]
	const ethernetIPv4 = 0x0001_0800_0604 // hardware 1, protocol IPv4, address lengths 6 and 4
	if uint64(binary.BigEndian.Uint32(p))<<16|uint64(binary.BigEndian.Uint16(p[4:])) != ethernetIPv4 || mac48(p[8:]) != mac {
		return claim{}, false
	}
	sender, target := netip.AddrFrom4([4]byte(p[14:18])), netip.AddrFrom4([4]byte(p[24:28]))
	if !usable(sender) {
		return claim{}, false
	}
	switch binary.BigEndian.Uint16(p[6:]) {
	case opRequest:
		return claim{sender, true}, true
	case opReply:
		return claim{sender, sender == target}, true
	}
	return claim{}, false
}

// dhcpPorts is the length of the IPv4 header in f if what follows it is a UDP header from DHCP client to server or back,
// else 0. f is an IPv4 frame of at least 42 bytes that holds UDP. Fragments are none.
func dhcpPorts(f []byte) int {
	ihl := int(f[14]&0x0f) * 4
	if f[14]>>4 != 4 || ihl < 20 || len(f) < ethernetLen+ihl+udpLen || binary.BigEndian.Uint16(f[20:])&0x3fff != 0 {
		return 0
	}
	switch binary.BigEndian.Uint32(f[ethernetLen+ihl:]) {
	case portClient<<16 | portServer, portServer<<16 | portClient:
		return ihl
	}
	return 0
}

// message is what a Watch takes from a DHCP message. It holds no pointer into the frame.
type message struct {
	op          byte
	kind        Kind
	chaddr      uint64 // as mac48
	ciaddr      netip.Addr
	yiaddr      netip.Addr
	requested   netip.Addr // option 50, 0.0.0.0 when absent
	hostname    [maxHostname]byte
	hostnameLen int
}

// wanted is the address that the client asks for: option 50, else the one it has.
func (m *message) wanted() netip.Addr {
	if usable(m.requested) {
		return m.requested
	}
	return m.ciaddr
}

// parseDHCP reads f, an Interesting IPv4 frame. It reports false for anything that is not a whole BOOTP message for
// Ethernet with DHCP's cookie, or whose port does not fit its direction.
func parseDHCP(f []byte) (m message, ok bool) {
	ihl := dhcpPorts(f)
	total := int(binary.BigEndian.Uint16(f[16:]))
	if ihl == 0 || total < ihl+udpLen || total > len(f)-ethernetLen {
		return m, false
	}
	u := f[ethernetLen+ihl : ethernetLen+total] // without Ethernet padding
	n := int(binary.BigEndian.Uint16(u[4:]))
	if n < udpLen+bootpLen+4 || n > len(u) {
		return m, false
	}
	p := u[udpLen:n]
	if p[1] != 1 || p[2] != 6 || binary.BigEndian.Uint32(p[bootpLen:]) != magicCookie {
		return m, false
	}
	if toServer := binary.BigEndian.Uint16(u[2:]) == portServer; toServer != (p[0] == opRequest) {
		return m, false
	}
	m.op = p[0]
	m.chaddr = mac48(p[28:])
	m.ciaddr = netip.AddrFrom4([4]byte(p[12:16]))
	m.yiaddr = netip.AddrFrom4([4]byte(p[16:20]))
	m.requested = netip.IPv4Unspecified()
	m.options(p[bootpLen+4:])
	return m, true
}

// options reads code, length, value triples up to the end option or to the first one that is cut.
func (m *message) options(b []byte) {
	for len(b) > 0 {
		switch code := b[0]; {
		case code == optionPad:
			b = b[1:]
		case code == optionEnd, len(b) < 2, len(b) < 2+int(b[1]):
			return
		default:
			m.option(code, b[2:2+int(b[1])])
			b = b[2+int(b[1]):]
		}
	}
}

// option takes one option's value; one of the wrong length is ignored.
func (m *message) option(code byte, v []byte) {
	switch {
	case code == optionType && len(v) == 1 && v[0] <= byte(kindInform):
		m.kind = Kind(v[0])
	case code == optionRequestedIP && len(v) == 4:
		m.requested = netip.AddrFrom4([4]byte(v))
	case code == optionHostname:
		m.hostnameLen = sanitize(&m.hostname, v)
	}
}

// sanitize copies a name into dst and returns its length in bytes. It ends at a NUL, which some clients append, and every
// byte that is not a letter, digit, '-', '.' or '_' becomes '_': the name comes from a guest and goes to logs and terminals.
func sanitize(dst *[maxHostname]byte, name []byte) int {
	n := 0
	for _, c := range name {
		if c == 0 || n == len(dst) {
			break
		}
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.':
			dst[n] = c
		default:
			dst[n] = '_'
		}
		n++
	}
	return n
}
