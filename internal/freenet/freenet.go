// SPDX-License-Identifier: Apache-2.0

// Package freenet finds IPv4 networks that nothing on this host uses, and tells what a given one would collide with: addresses
// of interfaces, routes, and networks that other programs choose without asking.
package freenet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A Conflict is something that uses addresses.
type Conflict struct {
	Name   string       // as in "en0", "a route by utun4" or "Lima's user network"
	Prefix netip.Prefix // not masked: an interface's has its address
}

func (c Conflict) String() string { return c.Name + " " + c.Prefix.String() }

// A Table is what uses addresses on a host.
type Table struct {
	used []Conflict // by interfaces and routes
}

// NewTable makes a Table of the interfaces' addresses and the routes. What could not collide with anything is left out: routes
// for more than a /8 are those for everything, also in the parts in which a VPN sets them, and the longer one wins.
func NewTable(interfaces, routes []Conflict) *Table {
	t := &Table{}
	own := map[netip.Prefix]bool{} // networks, each once
	for _, c := range interfaces {
		if c.Prefix.Addr().Is4() && !own[c.Prefix.Masked()] {
			own[c.Prefix.Masked()] = true
			t.used = append(t.used, c)
		}
	}
	n := len(t.used)
	for _, c := range routes {
		p := c.Prefix.Masked()
		if !p.Addr().Is4() || p.Bits() < shortestRoute || own[p] {
			continue
		}
		own[p] = true
		if p.IsSingleIP() && len(overlaps(t.used[:n], p)) > 0 {
			continue // a neighbour's
		}
		t.used = append(t.used, c)
	}
	return t
}

// shortestRoute is the length in bits of the shortest prefix that somebody can mean by a network of his own: 10.0.0.0/8.
const shortestRoute = 8

// Overlaps returns what on this host uses addresses of p, and nil if p is free. Networks that only might be used, because
// another program would choose them, are not among it.
func (t *Table) Overlaps(p netip.Prefix) []Conflict { return overlaps(t.used, p) }

func overlaps(list []Conflict, p netip.Prefix) (found []Conflict) {
	for _, c := range list {
		if c.Prefix.Overlaps(p) {
			found = append(found, c)
		}
	}
	return found
}

// blocks are where networks are chosen from (RFC 1918), in this order. first is where the search begins.
var blocks = []struct {
	prefix netip.Prefix
	first  netip.Addr
}{
	{netip.MustParsePrefix("192.168.0.0/16"), netip.MustParseAddr("192.168.107.0")}, // behind socket_vmnet's own
	{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParseAddr("10.112.0.0")},        // behind Kubernetes' services
	{netip.MustParsePrefix("172.16.0.0/12"), netip.MustParseAddr("172.27.0.0")},     // behind the first of Docker's
}

// MinBits and MaxBits bound the networks that Choose can find, by the length of their prefix.
const (
	MinBits = 8
	MaxBits = 30
)

// Choose returns the first network with a prefix of length n that nothing uses: no interface, no route, no network that other
// programs are known to choose, and none of taken. The order is always the same. The error is a *NoneFree.
func (t *Table) Choose(n int, taken ...netip.Prefix) (netip.Prefix, error) {
	if n < MinBits || n > MaxBits {
		return netip.Prefix{}, fmt.Errorf("no network has a prefix of %d bits: it has %d to %d", n, MinBits, MaxBits)
	}
	used := slices.Concat(t.used, reserved)
	for _, p := range taken {
		used = append(used, Conflict{"another network", p})
	}
	none := &NoneFree{Bits: n}
	for _, b := range blocks {
		if n < b.prefix.Bits() {
			continue
		}
		last := toUint(b.prefix.Addr()) | ^uint32(0)>>b.prefix.Bits()
		first := toUint(b.first) &^ (^uint32(0) >> n)
		if p, ok := none.search(used, n, first, last); ok {
			return p, nil
		}
		if p, ok := none.search(used, n, toUint(b.prefix.Addr()), first-1); ok {
			return p, nil
		}
	}
	return netip.Prefix{}, none
}

// A NoneFree says that no network is free, and names the Overlaps.
type NoneFree struct {
	Bits     int
	Overlaps []Conflict
}

// mostNamed bounds the overlaps in an error's text.
const mostNamed = 8

func (e *NoneFree) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no private network with a prefix of %d bits is free", e.Bits)
	// What takes most is named first.
	list := slices.Clone(e.Overlaps)
	slices.SortStableFunc(list, func(a, b Conflict) int { return a.Prefix.Bits() - b.Prefix.Bits() })
	for i, c := range list {
		switch i {
		case mostNamed:
			fmt.Fprintf(&b, ", and %d more", len(list)-i)
			return b.String()
		case 0:
			b.WriteString(": in the way are ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(c.String())
	}
	return b.String()
}

// search looks for a free network of n bits from first to last. It does not try what one conflict covers one by one.
func (e *NoneFree) search(used []Conflict, n int, first, last uint32) (netip.Prefix, bool) {
	size := uint64(1) << (32 - n)
	for at := uint64(first); at+size-1 <= uint64(last); {
		p := netip.PrefixFrom(fromUint(uint32(at)), n)
		found := overlaps(used, p)
		if len(found) == 0 {
			return p, true
		}
		if !slices.Contains(e.Overlaps, found[0]) { // one is enough to explain it, and this host's own come first
			e.Overlaps = append(e.Overlaps, found[0])
		}
		next := at + size
		for _, c := range found {
			end := uint64(toUint(c.Prefix.Masked().Addr())) + uint64(1)<<(32-c.Prefix.Bits())
			next = max(next, (end+size-1)&^(size-1))
		}
		at = next
	}
	return netip.Prefix{}, false
}

func toUint(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func fromUint(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}
