// SPDX-License-Identifier: Apache-2.0

package antispoof

import "time"

// bind makes mac the client's address, if it is free and one of a station, with the lease that goes with it.
func (g *Guard) bind(mac mac48, now time.Duration) bool {
	if !mac.isStation() || g.declared != 0 && mac != g.declared {
		return false
	}
	r := g.reg
	if n := r.network.Load(); n != nil && mac == n.gatewayMAC {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.macs[mac] != nil {
		return false
	}
	r.own(g, mac)
	r.settle(g, r.leaseOf(mac, now))
	return true
}

// own makes mac, which is free, the address of g. The caller holds mu.
func (r *Registry) own(g *Guard, mac mac48) {
	r.macs[mac] = g
	g.mac.Store(uint64(mac))
	g.linkLocal = interfaceID(mac)
}

// settle gives g the address of its lease l, if it has one and nobody uses that address without a lease. The caller holds mu.
func (r *Registry) settle(g *Guard, l *lease) {
	if l != nil && (r.static[l.ip] == nil || r.static[l.ip] == g) {
		g.dropStatic()
		g.set(l.ip, l.until)
	}
}

// set gives the client its address. The caller holds reg.mu.
func (g *Guard) set(ip ip4, until time.Duration) {
	g.until.Store(int64(until))
	g.ip.Store(uint32(ip))
}

// claim tells whether the client may use ip, which is not the address that it has, or has no more. Without an address it gets
// this one, if nobody else has it.
func (g *Guard) claim(ip ip4, now time.Duration) bool {
	if g.ip.Load() != 0 && int64(now) < g.until.Load() {
		return false // a client that has one does not disturb the others
	}
	r, mac := g.reg, mac48(g.mac.Load())
	n := r.network.Load()
	if !n.permits(ip, mac) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if had := ip4(g.ip.Load()); had != 0 {
		if int64(now) < g.until.Load() { // a lease has come in between
			return had == ip
		}
		g.lost()
	}
	if l := r.leaseOf(mac, now); l != nil { // it was learned after the client had come, or was no good at first
		r.settle(g, l)
		return ip4(g.ip.Load()) == ip
	}
	if ip == g.ended || r.static[ip] != nil || r.foreign(ip.mapped(), mac, now) {
		return false
	}
	if l := r.leased[ip]; l != nil {
		if now < l.until && l.mac != mac {
			return false
		}
		r.forget(l)
	}
	r.static[ip] = g
	g.set(ip, forever)
	return true
}

// lost takes the leased address from the client. It may have it back by a new lease only: DHCP may give it to others. The
// caller holds reg.mu.
func (g *Guard) lost() {
	g.ended = ip4(g.ip.Load())
	g.set(0, 0)
}

// had tells whether the client's last lease, which has ended, was of ip: it may ask for it again from there. A guest that was
// stopped for longer than its lease does.
func (g *Guard) had(ip ip4) bool {
	g.reg.mu.Lock()
	defer g.reg.mu.Unlock()
	return ip == g.ended
}

// leaseOf is the lease of mac, nil if it has none now. The caller holds mu.
func (r *Registry) leaseOf(mac mac48, now time.Duration) *lease {
	l := r.leases[mac]
	if l != nil && l.until <= now {
		r.forget(l)
		return nil
	}
	return l
}

// forget removes l. The caller holds mu.
func (r *Registry) forget(l *lease) {
	delete(r.leases, l.mac)
	delete(r.leased, l.ip)
}

// lease notes that a DHCP server gave ip to mac, which ends what either had before: the server's last word counts. The caller
// holds mu.
func (r *Registry) lease(mac mac48, ip ip4, until, now time.Duration) {
	if l := r.leases[mac]; l != nil {
		r.forget(l)
	}
	if l := r.leased[ip]; l != nil {
		r.forget(l)
		if other := r.macs[l.mac]; other != nil && ip4(other.ip.Load()) == ip {
			other.lost()
		}
	}
	if len(r.leases) >= maxLeases {
		r.makeRoom(now)
	}
	l := &lease{mac: mac, ip: ip, until: until}
	r.leases[mac], r.leased[ip] = l, l
}

// makeRoom forgets the leases that have ended, else the one that ends first among those whose clients are not there. The
// caller holds mu.
func (r *Registry) makeRoom(now time.Duration) {
	var first *lease
	for _, l := range r.leases {
		switch {
		case l.until <= now:
			r.forget(l)
		case r.macs[l.mac] == nil && (first == nil || l.until < first.until):
			first = l
		}
	}
	if len(r.leases) >= maxLeases && first != nil {
		r.forget(first)
	}
}

// acked gives the client the address of a DHCP server's ACK, unless another client uses it without a lease: then that one
// keeps it until it leaves, and this one has it after that.
func (g *Guard) acked(ip ip4, left, now time.Duration) bool {
	if !g.take(ip, left, now) {
		return false
	}
	g.reg.changed()
	return true
}

func (g *Guard) take(ip ip4, left, now time.Duration) bool {
	r, mac := g.reg, mac48(g.mac.Load())
	if !r.network.Load().permits(ip, mac) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.macs[mac] != g {
		return false
	}
	r.lease(mac, ip, after(now, left), now)
	if g.ended == ip {
		g.ended = 0
	}
	r.settle(g, r.leases[mac])
	had := ip4(g.ip.Load())
	if had != 0 && had != ip && r.static[had] != g { // by the lease before this one
		g.lost()
	}
	return had == ip
}

// dropStatic gives back the address that the client has without a lease. The caller holds reg.mu.
func (g *Guard) dropStatic() {
	if ip := ip4(g.ip.Load()); ip != 0 && g.reg.static[ip] == g {
		delete(g.reg.static, ip)
		g.set(0, 0)
	}
}

// released ends the client's lease. ip is the address that it gives back, 0 for whatever it has.
func (g *Guard) released(ip ip4) {
	if g.giveBack(ip) {
		g.reg.changed()
	}
}

func (g *Guard) giveBack(ip ip4) bool {
	r := g.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.leases[mac48(g.mac.Load())]
	if l == nil || ip != 0 && l.ip != ip {
		return false
	}
	r.forget(l)
	if ip4(g.ip.Load()) == l.ip {
		g.lost()
	}
	return true
}

// claimIPv6 makes addr one of the client's addresses, if nobody else has it and the client has room for it.
func (g *Guard) claimIPv6(a ip6, now time.Duration) bool {
	if !a.isHost() {
		return false
	}
	at := len(g.six)
	if at == maxIPv6 {
		at = 0
		for i := range g.six {
			if g.six[i].used < g.six[at].used {
				at = i
			}
		}
		if now-g.six[at].used < idleIPv6 {
			return false
		}
	}
	r := g.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.six[a] != nil || r.foreign(a, mac48(g.mac.Load()), now) {
		return false
	}
	if mac, ok := a.embedded(); ok {
		// Link-local addresses are no matter of who comes first. A random one looks like another's in one of 65,536 cases.
		if a.hi == linkLocalPrefix || r.macs[mac] != nil && r.macs[mac] != g {
			return false
		}
	}
	if at < len(g.six) {
		delete(r.six, g.six[at].addr)
	} else {
		g.six = g.six[:at+1]
	}
	g.six[at] = used{a, now}
	r.six[a] = g
	return true
}

// Close tells that the client has gone. Its lease stays, for its MAC; its other addresses are free.
func (g *Guard) Close() {
	r := g.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(g)
	if r.guards[g.id] == g {
		delete(r.guards, g.id)
	}
}

// release gives back what g holds, but for its lease. The caller holds mu.
func (r *Registry) release(g *Guard) {
	g.dropStatic()
	for _, u := range g.six {
		delete(r.six, u.addr)
	}
	if mac := mac48(g.mac.Load()); r.macs[mac] == g {
		delete(r.macs, mac)
	}
}
