// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"time"
)

// Lengths in bytes and numbers of IPv4 (RFC 791), UDP (RFC 768) and BOOTP (RFC 951).
const (
	ipv4Len  = 20
	udpLen   = 8
	bootpLen = 236 // the fixed part, up to the magic cookie

	protoIGMP = 2
	protoUDP  = 17

	portServer, portClient = 67, 68

	opRequest, opReply = 1, 2
)

// magicCookie begins the options of a DHCP message (RFC 2131 section 3).
const magicCookie = 0x63825363

// DHCP option codes and message types (RFC 2132).
const (
	optionPad         = 0
	optionRequestedIP = 50
	optionLeaseTime   = 51
	optionType        = 53
	optionEnd         = 255

	kindOffer, kindDecline, kindACK, kindNAK, kindRelease = 2, 4, 5, 6, 7
)

// ipv4 checks an IPv4 packet.
func (g *Guard) ipv4(p []byte, now time.Duration) reason {
	if len(p) < ipv4Len || p[0]>>4 != 4 {
		return malformed
	}
	header, total := int(p[0]&15)*4, int(binary.BigEndian.Uint16(p[2:]))
	if header < ipv4Len || total < header || total > len(p) {
		return malformed
	}
	src := load4(p[12:])
	unspecified := src == 0 && p[9] == protoIGMP // a host without an address joins groups from there (RFC 3376 4.2.13)
	// Only the first fragment has the ports, and no other can change them.
	if p[9] == protoUDP && binary.BigEndian.Uint16(p[6:])&0x1fff == 0 {
		u := p[header:total]
		if len(u) < udpLen {
			return malformed
		}
		switch sport, dport := binary.BigEndian.Uint16(u), binary.BigEndian.Uint16(u[2:]); {
		case sport == portServer || dport == portClient:
			return forgedDHCP // clients take what comes to their port, whatever port it is from
		case dport == portServer:
			return g.request(p, u, now)
		}
	}
	if !unspecified && !g.holds(src, now) {
		return forgedIPv4
	}
	return forgedNothing
}

// request checks a message to a DHCP server, the datagram u of packet p, and notes what it says. A server may believe it
// whatever its source is, so it has to be about the client itself.
func (g *Guard) request(p, u []byte, now time.Duration) reason {
	m, ok := message(u)
	switch fragments := binary.BigEndian.Uint16(p[6:])&0x2000 != 0; {
	case fragments || !ok:
		return malformed
	case m.op != opRequest || m.chaddr != mac48(g.mac.Load()) || m.relay != 0:
		return forgedDHCP
	case m.kind == kindOffer || m.kind == kindACK || m.kind == kindNAK:
		return forgedDHCP
	}
	if src := load4(p[12:]); src != 0 && !g.holds(src, now) && !(m.ciaddr == src && g.had(src)) {
		return forgedIPv4
	}
	switch m.kind {
	case kindRelease:
		g.released(m.ciaddr)
	case kindDecline:
		g.released(m.requested)
	default:
		g.asked.Store(askedKnown | uint64(m.xid))
	}
	return forgedNothing
}

// reply takes a DHCP message on its way to the client, in the IPv4 packet p of a frame from src.
func (g *Guard) reply(p []byte, src mac48) {
	header, total := int(p[0]&15)*4, int(binary.BigEndian.Uint16(p[2:]))
	if p[0]>>4 != 4 || header < ipv4Len || total < header+udpLen || total > len(p) || binary.BigEndian.Uint16(p[6:])&0x3fff != 0 {
		return
	}
	u := p[header:total]
	if binary.BigEndian.Uint32(u) != portServer<<16|portClient {
		return
	}
	n := g.reg.network.Load()
	if n == nil || n.gateway != 0 && load4(p[12:]) != n.gateway || n.gatewayMAC != 0 && src != n.gatewayMAC {
		return
	}
	m, ok := message(u)
	if !ok || m.op != opReply || m.chaddr != mac48(g.mac.Load()) || g.asked.Load() != askedKnown|uint64(m.xid) {
		return
	}
	switch {
	case m.kind == kindNAK:
		g.released(0)
	case m.kind == kindACK && m.yiaddr != 0: // there is none in the answer to INFORM
		if !g.acked(m.yiaddr, m.left, g.reg.now()) {
			g.warnConflict(m.yiaddr)
		}
	}
}

// dhcp is what a guard takes from a DHCP message.
type dhcp struct {
	op, kind       byte
	xid            uint32
	chaddr         mac48
	ciaddr, yiaddr ip4
	relay          ip4
	requested      ip4           // option 50, 0 when absent
	left           time.Duration // option 51, forever when absent, as for BOOTP
}

// message reads a UDP datagram. It reports false for anything that is not a whole BOOTP message for Ethernet.
func message(u []byte) (m dhcp, ok bool) {
	n := int(binary.BigEndian.Uint16(u[4:]))
	if n < udpLen+bootpLen || n > len(u) {
		return m, false
	}
	p := u[udpLen:n]
	if p[1] != 1 || p[2] != 6 {
		return m, false
	}
	m.op, m.xid = p[0], binary.BigEndian.Uint32(p[4:])
	m.ciaddr, m.yiaddr, m.relay = load4(p[12:]), load4(p[16:]), load4(p[24:])
	m.chaddr, m.left = load48(p[28:]), forever
	if o := p[bootpLen:]; len(o) >= 4 && binary.BigEndian.Uint32(o) == magicCookie {
		m.options(o[4:])
	}
	return m, true
}

// options reads code, length, value triples up to the end option or to the first one that is cut.
func (m *dhcp) options(b []byte) {
	for len(b) > 1 && b[0] != optionEnd {
		if b[0] == optionPad {
			b = b[1:]
			continue
		}
		n := int(b[1])
		if len(b) < 2+n {
			return
		}
		v := b[2 : 2+n]
		switch {
		case b[0] == optionType && n == 1:
			m.kind = v[0]
		case b[0] == optionRequestedIP && n == 4:
			m.requested = load4(v)
		case b[0] == optionLeaseTime && n == 4:
			if s := binary.BigEndian.Uint32(v); s != 1<<32-1 { // that is for ever (RFC 2132 section 9.2)
				m.left = time.Duration(s) * time.Second
			}
		}
		b = b[2+n:]
	}
}
