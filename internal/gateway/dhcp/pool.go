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

// A lease binds an address to a MAC address. It is remembered after it has expired, until its address is needed. One without a MAC
// address is held by none: a client found its address in use by another host.
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
func (l *lease) active(now time.Duration) bool { return l.leased(now) || l.offered > now }

// leased tells whether the client has the address now.
func (l *lease) leased(now time.Duration) bool { return l.bound && l.expires > now }

// pool is the addresses and which client has them. It has no lock.
type pool struct {
	first, last netip.Addr
	fixed       map[mac48]netip.Addr // what belongs to one client only
	notFree     map[netip.Addr]bool  // those, and what is reserved for the network
	limit       int                  // leases remembered
	size        int                  // addresses for any client

	byMAC  map[mac48]*lease
	byIP   map[netip.Addr]*lease
	byPort map[uint64][]*lease // seen behind a port; what is not charged to it any more leaves at the next count

	byName     map[string]*lease
	namesTaken map[string]bool // that no guest gets
}

func newPool(c Config) *pool {
	p := &pool{
		first: c.First, last: c.Last, limit: maxLeases,
		fixed:      map[mac48]netip.Addr{},
		notFree:    map[netip.Addr]bool{},
		byMAC:      map[mac48]*lease{},
		byIP:       map[netip.Addr]*lease{},
		byPort:     map[uint64][]*lease{},
		byName:     map[string]*lease{},
		namesTaken: c.NamesTaken,
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
	l.hasPort = false
	p.unname(l)
}

// quarantine takes the address of a lease that was removed out of use for a while, at the cost of its port.
func (p *pool) quarantine(l *lease, now time.Duration) {
	q := &lease{ip: l.ip, offered: now + quarantineTime}
	p.byIP[l.ip] = q
	p.setPort(q, l.port)
}

// setPort charges l to the port it was seen behind.
func (p *pool) setPort(l *lease, port uint64) {
	if !l.hasPort || l.port != port {
		l.port, l.hasPort = port, true
		p.byPort[port] = append(p.byPort[port], l)
	}
}

func (p *pool) portGone(port uint64) {
	for _, l := range p.byPort[port] {
		if l.port == port {
			l.hasPort = false
		}
	}
	delete(p.byPort, port)
}

// charged counts the addresses that port keeps from others, but for mac's own.
func (p *pool) charged(port uint64, mac mac48, now time.Duration) int {
	leases := slices.DeleteFunc(p.byPort[port], func(l *lease) bool {
		gone := !l.hasPort || l.port != port
		if !gone && !l.active(now) {
			gone, l.hasPort = true, false
		}
		return gone
	})
	p.byPort[port] = leases
	if len(leases) == 0 {
		delete(p.byPort, port)
	}
	n := len(leases)
	if l := p.byMAC[mac]; l != nil && slices.Contains(leases, l) {
		n--
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
	for ip := p.first; ip.Compare(p.last) <= 0; ip = ip.Next() {
		if l := p.byIP[ip]; (l == nil || !l.bound) && p.contains(ip) && p.usable(ip, mac, now) {
			return ip
		}
	}
	return netip.Addr{}
}

func (p *pool) oldestExpired(now time.Duration) *lease {
	var old *lease
	for _, l := range p.byMAC {
		if l.active(now) || !p.contains(l.ip) {
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
		delete(p.byIP, l.ip)
	}
	l.ip, l.bound, l.expires, l.offered = ip, false, 0, 0
	p.insert(l)
	return l
}
