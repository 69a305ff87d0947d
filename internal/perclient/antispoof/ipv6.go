// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"time"
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

	icmpMLDQuery, icmpMLDReport, icmpMLDDone, icmpMLDv2Report = 130, 131, 132, 143

	icmpRouterSolicitation     = 133
	icmpRouterAdvertisement    = 134
	icmpNeighbourSolicitation  = 135
	icmpNeighbourAdvertisement = 136
	icmpRedirect               = 137

	optionSourceLink, optionTargetLink = 1, 2

	portServer6, portClient6 = 547, 546

	// maxHeaders bounds the walk along a packet's extension headers.
	maxHeaders = 16

	linkLocalPrefix = 0xfe80 << 48
)

// interfaceID is the lower half of the IPv6 addresses that follow from m (RFC 4291 appendix A).
func interfaceID(m mac48) uint64 {
	return (uint64(m)>>24<<40 | 0xfffe<<24 | uint64(m)&0xffffff) ^ 2<<56
}

// embedded is the MAC from which the lower half of a follows, if it looks like that.
func (a ip6) embedded() (mac48, bool) {
	if a.lo>>24&0xffff != 0xfffe {
		return 0, false
	}
	lo := a.lo ^ 2<<56
	m := mac48(lo>>40<<24 | lo&0xffffff)
	return m, m.isStation()
}

// isHost reports whether a can be the address of one host on the wire: none that is unspecified, loopback, multicast or an
// IPv4 address in disguise.
func (a ip6) isHost() bool {
	return a.hi>>56 != 0xff && (a.hi != 0 || a.lo>>32 != 0 && a.lo>>32 != 0xffff)
}

// holdsIPv6 tells whether a is one of the client's addresses, or becomes one.
func (g *Guard) holdsIPv6(a ip6, now time.Duration) bool {
	if a.hi == linkLocalPrefix && a.lo == g.linkLocal {
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
	src := load6(p[8:])
	u, ok := upper(p[6], body)
	if !ok {
		return malformed
	}
	switch {
	case u.rest: // the first fragment had it all
	case u.proto == nextICMPv6:
		done, r := g.icmp(u, src, now)
		if done || r != forgedNothing {
			return r
		}
	case u.proto == protoUDP:
		if len(u.data) < udpLen {
			return malformed
		}
		if binary.BigEndian.Uint16(u.data) == portServer6 || binary.BigEndian.Uint16(u.data[2:]) == portClient6 {
			return forgedDHCP
		}
	}
	if !g.holdsIPv6(src, now) {
		return forgedIPv6
	}
	return forgedNothing
}

// payload is what a packet carries behind its extension headers.
type payload struct {
	proto    byte
	data     []byte
	fragment bool // a part of it
	rest     bool // a part that is not the first
}

// upper walks the extension headers in body, of which the first is of type next. It reports false when they cannot be read,
// also when the first fragment does not have them all (RFC 7112).
func upper(next byte, body []byte) (u payload, ok bool) {
	for range maxHeaders {
		u.proto, u.data = next, body
		n := 0
		switch next {
		case nextHopByHop, nextRouting, nextDestination, nextMobility, nextHIP, nextShim6, nextAH, nextFragment:
			if len(body) < 8 {
				return u, false
			}
			n = (int(body[1]) + 1) * 8
		default:
			return u, true
		}
		switch next {
		case nextAH:
			n = (int(body[1]) + 2) * 4
		case nextFragment:
			n = 8
			u.fragment = true
			if at := binary.BigEndian.Uint16(body[2:]); at>>3 != 0 {
				u.rest = true
				return u, true
			}
		}
		if len(body) < n {
			return u, false
		}
		next, body = body[0], body[n:]
	}
	return u, false
}

// icmp checks an ICMPv6 message. done tells that the source needs no further look.
func (g *Guard) icmp(u payload, src ip6, now time.Duration) (done bool, r reason) {
	if len(u.data) < 8 {
		return true, malformed
	}
	unspecified := src == ip6{}
	switch t := u.data[0]; t {
	case icmpRouterAdvertisement, icmpRedirect:
		return true, forgedND
	case icmpRouterSolicitation, icmpNeighbourSolicitation, icmpNeighbourAdvertisement:
		if u.fragment { // RFC 6980
			return true, forgedND
		}
		return unspecified, g.discovery(t, u.data, src, now)
	case icmpMLDReport, icmpMLDDone, icmpMLDv2Report: // RFC 3590
		return unspecified, forgedNothing
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
func (g *Guard) discovery(t byte, d []byte, src ip6, now time.Duration) reason {
	options := 8
	var target ip6
	if t != icmpRouterSolicitation {
		if options = 24; len(d) < options {
			return malformed
		}
		target = load6(d[8:])
	}
	own, unspecified := mac48(g.mac.Load()), src == ip6{}
	for o := d[options:]; len(o) > 0; {
		if len(o) < 8 || o[1] == 0 || len(o) < int(o[1])*8 {
			return malformed
		}
		// Without a source there is no address that could go with the link's.
		if (o[0] == optionSourceLink || o[0] == optionTargetLink) && (unspecified || o[1] != 1 || load48(o[2:]) != own) {
			return forgedND
		}
		o = o[int(o[1])*8:]
	}
	switch {
	case t == icmpNeighbourAdvertisement && unspecified:
		return forgedND
	case t == icmpNeighbourAdvertisement, t == icmpNeighbourSolicitation && unspecified: // duplicate address detection
		if !g.holdsIPv6(target, now) {
			return forgedND
		}
	}
	return forgedNothing
}
