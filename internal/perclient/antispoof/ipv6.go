// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// Lengths in bytes and numbers of IPv6 (RFC 8200), ICMPv6 (RFC 4443) and neighbour discovery (RFC 4861).
const (
	ipv6Len = 40

	nextHopByHop    = 0
	nextRouting     = 43
	nextFragment    = 44
	nextAH          = 51
	nextICMPv6      = 58
	nextDestination = 60
	nextMobility    = 135
	nextHIP         = 139
	nextShim6       = 140

	icmpMLDReport, icmpMLDDone, icmpMLDv2Report = 131, 132, 143

	icmpRouterSolicitation     = 133
	icmpRouterAdvertisement    = 134
	icmpNeighbourSolicitation  = 135
	icmpNeighbourAdvertisement = 136
	icmpRedirect               = 137

	optionSourceLink, optionTargetLink = 1, 2

	portServer6, portClient6 = 547, 546

	// maxHeaders bounds the walk along a packet's extension headers.
	maxHeaders = 16
)

// compatible are the addresses that are unspecified, loopback or IPv4's in the oldest form.
var compatible = netip.MustParsePrefix("::/96")

func ip6(b []byte) netip.Addr { return netip.AddrFrom16([16]byte(b)) }

// linkLocal is the IPv6 address that follows from m (RFC 4291 appendix A).
func linkLocal(m watch.MAC) netip.Addr {
	h := m.Hardware()
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: h[0] ^ 2, 9: h[1], 10: h[2], 11: 0xff, 12: 0xfe, 13: h[3], 14: h[4], 15: h[5]})
}

// embedded is the MAC from which the lower half of a follows, if it looks like that.
func embedded(a netip.Addr) (watch.MAC, bool) {
	b := a.As16()
	m := watch.MACOf([]byte{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]})
	return m, b[11] == 0xff && b[12] == 0xfe && m.IsStation()
}

// isHost reports whether a can be the address of one host on the wire.
func isHost(a netip.Addr) bool { return !a.IsMulticast() && !a.Is4In6() && !compatible.Contains(a) }

// holdsIPv6 tells whether a is one of the client's addresses, or becomes one.
func (g *Guard) holdsIPv6(a netip.Addr, now time.Duration) bool {
	if a == g.linkLocal {
		return true
	}
	for i := range g.six {
		if g.six[i].addr == a {
			g.six[i].used = now
			return true
		}
	}
	return g.claimIPv6(a, now)
}

// ipv6 checks an IPv6 packet.
func (g *Guard) ipv6(p []byte, now time.Duration) reason {
	if len(p) < ipv6Len || p[0]>>4 != 6 {
		return malformed
	}
	n := int(binary.BigEndian.Uint16(p[4:]))
	if n > len(p)-ipv6Len {
		return malformed
	}
	body := p[ipv6Len:]
	if n > 0 { // else it is empty, or its length is in an option (RFC 2675): look at all there is
		body = body[:n]
	}
	src := ip6(p[8:])
	proto, body, part, ok := upper(p[6], body)
	switch {
	case !ok:
		return malformed
	case part == furtherPart: // the first fragment had it all
	case proto == nextICMPv6:
		if done, r := g.icmp(body, part, src, now); done || r != forgedNothing {
			return r
		}
	case proto == watch.ProtoUDP:
		if len(body) < watch.UDPLen {
			return malformed
		}
		if binary.BigEndian.Uint16(body) == portServer6 || binary.BigEndian.Uint16(body[2:]) == portClient6 {
			return forgedDHCP
		}
	}
	if !g.holdsIPv6(src, now) {
		return forgedIPv6
	}
	return forgedNothing
}

// What a packet is of one that was fragmented.
const (
	allParts = iota
	firstPart
	furtherPart
)

// upper walks the extension headers in body, of which the first is of type next, and returns what is behind. It reports false when
// they cannot be read, also when the first fragment does not have them all (RFC 7112).
func upper(next byte, body []byte) (proto byte, data []byte, part int, ok bool) {
	for range maxHeaders {
		switch next {
		default:
			return next, body, part, true
		case nextHopByHop, nextRouting, nextDestination, nextMobility, nextHIP, nextShim6, nextAH, nextFragment:
			if len(body) < 8 {
				return next, nil, part, false
			}
		}
		n := (int(body[1]) + 1) * 8
		switch next {
		case nextAH:
			n = (int(body[1]) + 2) * 4
		case nextFragment:
			n, part = 8, firstPart
			if binary.BigEndian.Uint16(body[2:])>>3 != 0 {
				return next, nil, furtherPart, true
			}
		}
		if len(body) < n {
			break
		}
		next, body = body[0], body[n:]
	}
	return next, nil, part, false
}

// icmp checks an ICMPv6 message. done tells that the source needs no further look.
func (g *Guard) icmp(d []byte, part int, src netip.Addr, now time.Duration) (done bool, r reason) {
	if len(d) < 8 {
		return true, malformed
	}
	switch d[0] {
	case icmpRouterAdvertisement, icmpRedirect:
		return true, forgedND
	case icmpRouterSolicitation, icmpNeighbourSolicitation, icmpNeighbourAdvertisement:
		if part != allParts { // RFC 6980
			return true, forgedND
		}
		return src.IsUnspecified(), g.discovery(d, src, now)
	case icmpMLDReport, icmpMLDDone, icmpMLDv2Report: // RFC 3590
		return src.IsUnspecified(), forgedNothing
	}
	return false, forgedNothing
}

// discovery checks a message of neighbour discovery:
//
//	0      1      2          4          8                  24
//	+------+------+----------+----------+------------------+-----------------------+
//	| type | code | checksum | flags    | target           | options               |
//	|      |      |          |          | (not in type 133)| type, length / 8, ... |
//	+------+------+----------+----------+------------------+-----------------------+
//
// Only a solicitation may come from no address: for a router, or for an address that the client is about to use.
func (g *Guard) discovery(d []byte, src netip.Addr, now time.Duration) reason {
	options := 8
	var target netip.Addr
	if d[0] != icmpRouterSolicitation {
		if options = 24; len(d) < options {
			return malformed
		}
		target = ip6(d[8:])
	}
	for o := d[options:]; len(o) > 0; o = o[int(o[1])*8:] {
		if len(o) < 8 || o[1] == 0 || len(o) < int(o[1])*8 {
			return malformed
		}
		// Without a source there is no address that could go with the link's.
		if (o[0] == optionSourceLink || o[0] == optionTargetLink) && (src.IsUnspecified() || o[1] != 1 || watch.MACOf(o[2:]) != g.mac()) {
			return forgedND
		}
	}
	advertises := d[0] == icmpNeighbourAdvertisement
	switch detects := d[0] == icmpNeighbourSolicitation && src.IsUnspecified(); { // whether another has the address
	case advertises && src.IsUnspecified(), (advertises || detects) && !g.holdsIPv6(target, now):
		return forgedND
	}
	return forgedNothing
}

// outside looks at a frame on its way to a client for the addresses of strangers, that is stations that are no clients of the
// daemon: the host, its router, the guests of other programs. They are in ARP, router advertisements and neighbour discovery.
func (r *Registry) outside(f []byte) {
	if a, ok := watch.ParseARP(f); ok {
		if a.MAC == watch.MACOf(f[6:]) && !a.Sender.IsUnspecified() {
			r.stranger(a.Sender, a.MAC)
		}
		return
	}
	if len(f) < watch.EthernetLen+ipv6Len+24 || binary.BigEndian.Uint16(f[12:]) != typeIPv6 {
		return
	}
	p := f[watch.EthernetLen:]
	if p[6] != nextICMPv6 {
		return
	}
	a := ip6(p[8:])
	switch p[ipv6Len] {
	case icmpNeighbourAdvertisement:
		a = ip6(p[ipv6Len+8:])
	case icmpRouterAdvertisement, icmpNeighbourSolicitation:
	default:
		return
	}
	if isHost(a) {
		r.stranger(a, watch.MACOf(f[6:]))
	}
}
