// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"time"
)

// mac48 is a MAC address as a map key.
type mac48 [6]byte

func (m mac48) hardware() net.HardwareAddr { return slices.Clone(m[:]) }

// A lease binds an address to a MAC address. It is remembered after it has ended, until its address is needed. One without a MAC
// address is held by none: a client found its address in use by another host.
type lease struct {
	mac      mac48
	ip       netip.Addr
	hostname string
	name     string // by which others find it, "" = none; one that has ended does not keep it from others

	bound bool          // was acknowledged, else it was offered only
	until time.Duration // its end, on the server's clock
	port  uint64        // of the bridge, where the client was seen last; 0 = none that is there now
}

// active tells whether no other client may have the address now, unless it gets none otherwise and port is 0.
func (l *lease) active(now time.Duration) bool { return l.until > now }

// leased tells whether the client has the address now.
func (l *lease) leased(now time.Duration) bool { return l.bound && l.active(now) }

// pool is the addresses and which client has them. It has no lock.
type pool struct {
	first, last netip.Addr
	fixed       map[mac48]netip.Addr // what belongs to one client only
	notFree     map[netip.Addr]bool  // those, and what is reserved for the network
	limit       int                  // leases remembered
	size        int                  // addresses for any client
	namesTaken  map[string]bool      // that no guest gets

	byMAC map[mac48]*lease
	byIP  map[netip.Addr]*lease
}

func newPool(c Config) *pool {
	p := &pool{
		first: c.First, last: c.Last, limit: maxLeases, namesTaken: c.NamesTaken,
		fixed: map[mac48]netip.Addr{}, notFree: map[netip.Addr]bool{}, byMAC: map[mac48]*lease{}, byIP: map[netip.Addr]*lease{},
	}
	for _, a := range c.Reserved {
		p.notFree[a] = true
	}
	for mac, a := range c.Fixed {
		p.fixed[mac], p.notFree[a] = a, true
	}
	p.size = p.count()
	return p
}

// count is how many addresses any client may get, at most as many as leases are remembered.
func (p *pool) count() int {
	if !p.first.Is4() || !p.last.Is4() || p.last.Less(p.first) {
		return 0
	}
	first, last := p.first.As4(), p.last.As4()
	n := int(binary.BigEndian.Uint32(last[:])) - int(binary.BigEndian.Uint32(first[:])) + 1
	for ip := range p.notFree {
		if p.inRange(ip) {
			n--
		}
	}
	return min(n, p.limit)
}

func (p *pool) inRange(ip netip.Addr) bool {
	return ip.Is4() && p.first.Compare(ip) <= 0 && ip.Compare(p.last) <= 0
}

// contains tells whether ip may be leased to any client.
func (p *pool) contains(ip netip.Addr) bool { return p.inRange(ip) && !p.notFree[ip] }

// permits tells whether ip may ever be leased to mac.
func (p *pool) permits(ip netip.Addr, mac mac48) bool {
	if own, ok := p.fixed[mac]; ok {
		return ip == own
	}
	return p.contains(ip)
}

// usable tells whether ip may be leased to mac now.
func (p *pool) usable(ip netip.Addr, mac mac48, now time.Duration) bool {
	l := p.byIP[ip]
	return p.permits(ip, mac) && (l == nil || l.mac == mac || !l.active(now))
}

func (p *pool) insert(l *lease) {
	p.byMAC[l.mac] = l
	p.byIP[l.ip] = l
}

func (p *pool) remove(l *lease) {
	delete(p.byMAC, l.mac)
	delete(p.byIP, l.ip)
}

// charged counts the addresses that port keeps from others, but for mac's own.
func (p *pool) charged(port uint64, mac mac48, now time.Duration) (n int) {
	for _, l := range p.byIP {
		if l.port == port && l.mac != mac && l.active(now) {
			n++
		}
	}
	return n
}

// choose picks the address for a client without one: the one reserved for it, else what it asks for, else one never leased, else the
// oldest that nothing uses. It returns the zero Addr when all are in use.
func (p *pool) choose(mac mac48, wish netip.Addr, now time.Duration) netip.Addr {
	if own, ok := p.fixed[mac]; ok {
		return own
	}
	if p.byIP[wish] == nil && p.contains(wish) {
		return wish
	}
	for ip := p.first; ip.Compare(p.last) <= 0; ip = ip.Next() {
		if l := p.byIP[ip]; (l == nil || !l.bound && !l.active(now)) && p.contains(ip) {
			return ip
		}
	}
	if old := p.oldest(now); old != nil {
		return old.ip
	}
	return netip.Addr{}
}

// oldest is the lease that ends first, or has, of those whose clients are at no port.
func (p *pool) oldest(now time.Duration) *lease {
	var old *lease
	for _, l := range p.byMAC {
		if (!l.active(now) || l.port == 0) && p.contains(l.ip) && (old == nil || l.until < old.until || l.until == old.until && l.ip.Less(old.ip)) {
			old = l
		}
	}
	return old
}

// take gives ip, which is usable for mac, to mac and returns the lease. An ended lease of another client for ip is forgotten, another
// address that mac had, and where too many are remembered, the oldest lease. It returns nil if all are in use.
func (p *pool) take(mac mac48, ip netip.Addr, now time.Duration) *lease {
	if other := p.byIP[ip]; other != nil {
		if other.mac == mac {
			return other
		}
		p.remove(other)
	}
	l := p.byMAC[mac]
	if l == nil {
		l = &lease{mac: mac}
	} else {
		delete(p.byIP, l.ip)
	}
	if _, fixed := p.fixed[mac]; !fixed && p.byMAC[mac] == nil && len(p.byMAC) >= p.limit {
		old := p.oldest(now)
		if old == nil {
			return nil
		}
		p.remove(old)
	}
	l.ip, l.bound, l.until = ip, false, 0
	p.insert(l)
	return l
}
