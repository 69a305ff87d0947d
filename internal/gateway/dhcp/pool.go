// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net"
	"net/netip"
	"slices"
	"time"
)

// mac48 is a MAC address as a map key.
type mac48 [6]byte

func (m mac48) hardware() net.HardwareAddr { return slices.Clone(m[:]) }

// A lease binds an address to a MAC address. It is remembered after it has expired, until its address is needed.
type lease struct {
	mac      mac48
	ip       netip.Addr
	hostname string
	name     string // in the pool's byName, "" = none

	bound   bool          // was acknowledged at least once
	expires time.Duration // end of a bound lease, on the server's clock
	offered time.Duration // end of an offer's hold

	port    uint64 // where the client was seen last
	hasPort bool
}

// active tells whether no other client may have the address now.
func (l *lease) active(now time.Duration) bool { return l.bound && l.expires > now || l.offered > now }

// leased tells whether the client has the address now.
func (l *lease) leased(now time.Duration) bool { return l.bound && l.expires > now }

// quarantine is an address that a client found in use by another host.
type quarantine struct {
	until time.Duration
	port  uint64
}

// pool is the addresses and who has them. It has no lock.
type pool struct {
	first, last netip.Addr
	reserved    map[netip.Addr]bool
	fixed       map[mac48]netip.Addr // what belongs to one client only
	fixedTo     map[netip.Addr]mac48 // and to which
	limit       int                  // leases remembered
	// fresh is where the search for a free address begins: everything below is reserved or belongs to a bound lease.
	fresh netip.Addr
	size  int // addresses for just anybody

	byMAC  map[mac48]*lease
	byIP   map[netip.Addr]*lease
	byPort map[uint64]map[*lease]bool // leases last seen behind a port; expired ones leave it at the next count

	quarantined map[netip.Addr]quarantine

	byName     map[string]*lease
	namesTaken map[string]bool // that no guest gets
}

func newPool(c Config) *pool {
	p := &pool{
		first: c.First, last: c.Last, fresh: c.First, limit: maxLeases,
		reserved:    map[netip.Addr]bool{},
		fixed:       map[mac48]netip.Addr{},
		fixedTo:     map[netip.Addr]mac48{},
		byMAC:       map[mac48]*lease{},
		byIP:        map[netip.Addr]*lease{},
		byPort:      map[uint64]map[*lease]bool{},
		quarantined: map[netip.Addr]quarantine{},
		byName:      map[string]*lease{},
		namesTaken:  c.NamesTaken,
	}
	for _, a := range c.Reserved {
		p.reserved[a] = true
	}
	for mac, a := range c.Fixed {
		p.fixed[mac], p.fixedTo[a] = a, mac
	}
	p.size = p.countPool()
	return p
}

// contains tells whether ip may be leased to just anybody.
func (p *pool) contains(ip netip.Addr) bool {
	_, fixed := p.fixedTo[ip]
	return ip.Is4() && p.first.Compare(ip) <= 0 && ip.Compare(p.last) <= 0 && !p.reserved[ip] && !fixed
}

// permits tells whether ip may ever be leased to mac.
func (p *pool) permits(ip netip.Addr, mac mac48) bool {
	if own, ok := p.fixed[mac]; ok {
		return ip == own
	}
	return p.contains(ip)
}

// usable tells whether ip may be leased to mac now.
func (p *pool) usable(ip netip.Addr, mac mac48, now time.Duration) bool {
	if !p.permits(ip, mac) || p.inQuarantine(ip, now) {
		return false
	}
	l := p.byIP[ip]
	return l == nil || l.mac == mac || !l.active(now)
}

func (p *pool) inQuarantine(ip netip.Addr, now time.Duration) bool {
	q, ok := p.quarantined[ip]
	if ok && q.until <= now {
		delete(p.quarantined, ip)
		return false
	}
	return ok
}

func (p *pool) insert(l *lease) {
	p.byMAC[l.mac] = l
	p.byIP[l.ip] = l
}

func (p *pool) remove(l *lease) {
	delete(p.byMAC, l.mac)
	p.vacate(l.ip)
	p.unport(l)
	p.unname(l)
}

// vacate takes an address from its lease.
func (p *pool) vacate(ip netip.Addr) {
	delete(p.byIP, ip)
	if p.contains(ip) && ip.Less(p.fresh) {
		p.fresh = ip
	}
}

// setPort charges l to the port it was seen behind.
func (p *pool) setPort(l *lease, port uint64) {
	if l.hasPort && l.port == port {
		return
	}
	p.unport(l)
	if p.byPort[port] == nil {
		p.byPort[port] = map[*lease]bool{}
	}
	p.byPort[port][l] = true
	l.port, l.hasPort = port, true
}

func (p *pool) unport(l *lease) {
	if !l.hasPort {
		return
	}
	l.hasPort = false
	delete(p.byPort[l.port], l)
	if len(p.byPort[l.port]) == 0 {
		delete(p.byPort, l.port)
	}
}

func (p *pool) portGone(port uint64) {
	for l := range p.byPort[port] {
		l.hasPort = false
	}
	delete(p.byPort, port)
}

// charged counts the addresses that port keeps from others, but for mac's own.
func (p *pool) charged(port uint64, mac mac48, now time.Duration) int {
	n := 0
	for l := range p.byPort[port] {
		switch {
		case !l.active(now):
			p.unport(l)
		case l.mac != mac:
			n++
		}
	}
	for ip, q := range p.quarantined {
		if q.port == port && p.inQuarantine(ip, now) {
			n++
		}
	}
	return n
}

// choose picks the address for a client without one: the one reserved for it, else what it asks for, else one never leased, else the one that expired
// first. It returns the zero Addr when all are taken.
func (p *pool) choose(mac mac48, wish netip.Addr, now time.Duration) netip.Addr {
	if own, ok := p.fixed[mac]; ok {
		return own
	}
	if p.byIP[wish] == nil && p.usable(wish, mac, now) {
		return wish
	}
	if len(p.byMAC) < p.limit {
		if ip := p.neverLeased(mac, now); ip.IsValid() {
			return ip
		}
	}
	if old := p.oldestExpired(now); old != nil {
		return old.ip
	}
	return netip.Addr{}
}

func (p *pool) neverLeased(mac mac48, now time.Duration) netip.Addr {
	for ip := p.fresh; ip.Compare(p.last) <= 0; ip = ip.Next() {
		l := p.byIP[ip]
		if !p.contains(ip) || l != nil && l.bound {
			if ip == p.fresh {
				p.fresh = ip.Next()
			}
			continue
		}
		if p.usable(ip, mac, now) {
			return ip
		}
	}
	return netip.Addr{}
}

func (p *pool) oldestExpired(now time.Duration) *lease {
	var old *lease
	for _, l := range p.byMAC {
		if l.active(now) || p.inQuarantine(l.ip, now) || !p.contains(l.ip) {
			continue
		}
		if old == nil || l.expires < old.expires || l.expires == old.expires && l.ip.Less(old.ip) {
			old = l
		}
	}
	return old
}

// take gives ip, which is usable for mac, to mac and returns the lease. An expired lease of another client for ip is
// forgotten, and so is another address that mac had.
func (p *pool) take(mac mac48, ip netip.Addr) *lease {
	if l := p.byIP[ip]; l != nil {
		if l.mac == mac {
			return l
		}
		p.remove(l)
	}
	l := p.byMAC[mac]
	if l == nil {
		l = &lease{mac: mac}
	} else {
		p.vacate(l.ip)
	}
	l.ip, l.bound, l.expires, l.offered = ip, false, 0, 0
	p.insert(l)
	return l
}
