// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// bind makes mac the client's address, if it is free and one of a station, with the lease that goes with it.
func (g *Guard) bind(mac watch.MAC, now time.Duration) bool {
	if !mac.IsStation() || g.declared != 0 && mac != g.declared {
		return false
	}
	r := g.reg
	if n := r.network.Load(); n != nil && mac == watch.MACOf(n.GatewayMAC) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.macs[mac] != nil {
		return false
	}
	r.give(g, mac)
	r.settle(g, now)
	return true
}

// give makes mac, which is free, the address of g. The caller holds mu.
func (r *Registry) give(g *Guard, mac watch.MAC) {
	r.macs[mac] = g
	g.number.Store(uint64(mac))
	g.linkLocal = linkLocal(mac)
}

// settle gives g the address of its lease, unless another client uses that without a lease, and reports whether there is a lease now.
// The caller holds mu.
func (r *Registry) settle(g *Guard, now time.Duration) bool {
	l := r.leases[g.mac()]
	if l == nil || l.until <= now {
		return false
	}
	if u := r.used[l.ip]; u == nil || u == g {
		g.dropStatic()
		g.own.Store(l)
	}
	return true
}

// holds tells whether ip is the client's address, or becomes it. A client that has one does not disturb the others.
func (g *Guard) holds(ip netip.Addr, now time.Duration) bool {
	if own := g.own.Load(); own != nil && now < own.until {
		return own.ip == ip
	}
	return g.claim(ip, now)
}

// claim tells whether the client, which has no address or has it no more, may use ip. It gets this one, if no other has it.
func (g *Guard) claim(ip netip.Addr, now time.Duration) bool {
	r, mac := g.reg, g.mac()
	if !r.network.Load().permits(ip, mac) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := g.own.Load(); own != nil && own.until <= now {
		g.lost()
	}
	// A lease has come in between, or was learned after the client had come, or was no good at first.
	if r.settle(g, now) || g.own.Load() != nil {
		return g.has(ip)
	}
	if ip == g.ended || !r.free(ip, mac, now) {
		return false
	}
	r.used[ip] = g
	g.own.Store(&holding{ip: ip, mac: mac, until: watch.Forever})
	return true
}

// free tells whether a client with mac may have the address a without a lease. The caller holds mu.
func (r *Registry) free(a netip.Addr, mac watch.MAC, now time.Duration) bool {
	h := r.held[a]
	return r.used[a] == nil && (h == nil || h.until <= now || h.mac == mac)
}

// has tells whether the client's IPv4 address is ip.
func (g *Guard) has(ip netip.Addr) bool {
	own := g.own.Load()
	return own != nil && own.ip == ip
}

// lost takes the leased address from the client. It may have it back by a new lease only: DHCP may give it to others. The
// caller holds reg.mu.
func (g *Guard) lost() {
	g.ended = g.own.Swap(nil).ip
}

// had tells whether the client's last lease, which has ended, was of ip: it may ask for it again from there. A guest that was
// stopped for longer than its lease does.
func (g *Guard) had(ip netip.Addr) bool {
	g.reg.mu.Lock()
	defer g.reg.mu.Unlock()
	return ip == g.ended
}

// dropStatic gives back the address that the client has without a lease. The caller holds reg.mu.
func (g *Guard) dropStatic() {
	if own := g.own.Load(); own != nil && !own.leased {
		delete(g.reg.used, own.ip)
		g.own.Store(nil)
	}
}

// lease notes that a DHCP server gave ip to mac, which ends what either had before: the server's last word counts. The caller
// holds mu.
func (r *Registry) lease(mac watch.MAC, ip netip.Addr, until, now time.Duration) {
	if l := r.leases[mac]; l != nil {
		r.forget(l)
	}
	if h := r.held[ip]; h != nil {
		r.forget(h)
		if other := r.macs[h.mac]; other != nil && other.own.Load() == h {
			other.lost()
		}
	}
	r.room(true, now)
	l := &holding{ip, mac, until, true}
	r.leases[mac], r.held[ip] = l, l
}

// forget removes h. The caller holds mu.
func (r *Registry) forget(h *holding) {
	delete(r.held, h.ip)
	if h.leased {
		delete(r.leases, h.mac)
	}
}

// room tells whether there is room in held, and makes some if it is full: what has ended goes, and for a lease what ends first of
// those whose clients are not there. Strangers decide how often they say something. The caller holds mu.
func (r *Registry) room(lease bool, now time.Duration) bool {
	if len(r.held) < maxHeld {
		return true
	}
	if !lease && now < r.swept+time.Second {
		return false
	}
	r.swept = now
	var first *holding
	for _, h := range r.held {
		switch {
		case h.until <= now:
			r.forget(h)
		case r.macs[h.mac] == nil && (first == nil || h.until < first.until):
			first = h
		}
	}
	if lease && len(r.held) >= maxHeld && first != nil {
		r.forget(first)
	}
	return len(r.held) < maxHeld
}

// stranger notes that the station with mac uses a, unless it is a client. What it says takes no address from a client.
func (r *Registry) stranger(a netip.Addr, mac watch.MAC) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.held[a]
	switch {
	case r.macs[mac] != nil, h != nil && h.leased && now < h.until:
		return
	case h == nil && !r.room(false, now): // an address that is not remembered is not protected
		return
	case h != nil && h.leased:
		r.forget(h)
		fallthrough
	case h == nil:
		h = &holding{ip: a}
		r.held[a] = h
	}
	h.mac, h.until = mac, after(now, strangerTime)
}

// acked gives the client the address of a DHCP server's ACK, unless another client uses it without a lease: then that one
// keeps it until it leaves, and this one has it after that.
func (g *Guard) acked(ip netip.Addr, left, now time.Duration) (ok bool) {
	r, mac := g.reg, g.mac()
	if !r.network.Load().permits(ip, mac) {
		return false
	}
	defer func() {
		if ok {
			r.changed() // without the lock
		}
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.macs[mac] != g {
		return false
	}
	r.lease(mac, ip, after(now, left), now)
	if g.ended == ip {
		g.ended = netip.Addr{}
	}
	r.settle(g, now)
	if own := g.own.Load(); own != nil && own.leased && own.ip != ip { // by the lease before this one
		g.lost()
	}
	return g.has(ip)
}

// released ends the client's lease. ip is the address that it gives back, 0.0.0.0 for whatever it has.
func (g *Guard) released(ip netip.Addr) {
	r := g.reg
	r.mu.Lock()
	r.settle(g, r.now())
	l := r.leases[g.mac()]
	ends := l != nil && (ip.IsUnspecified() || l.ip == ip)
	if ends {
		r.forget(l)
		if g.own.Load() == l {
			g.lost()
		}
	}
	r.mu.Unlock()
	if ends {
		r.changed()
	}
}

// claimIPv6 makes addr one of the client's addresses, if no other has it and the client has room for it.
func (g *Guard) claimIPv6(a netip.Addr, now time.Duration) bool {
	if !isHost(a) {
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
	if !r.free(a, g.mac(), now) {
		return false
	}
	// A link-local address of another MAC is not given to the first that uses it. A random one looks like that in one of 65,536 cases.
	if mac, ok := embedded(a); ok && (a.IsLinkLocalUnicast() || r.macs[mac] != nil && r.macs[mac] != g) {
		return false
	}
	if at < len(g.six) {
		delete(r.used, g.six[at].addr)
	} else {
		g.six = g.six[:at+1]
	}
	g.six[at] = used{a, now}
	r.used[a] = g
	return true
}

// Close tells that the client has gone. Its lease stays, for its MAC; its other addresses are free.
func (g *Guard) Close() {
	r := g.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	g.dropStatic()
	for _, u := range g.six {
		delete(r.used, u.addr)
	}
	g.six = nil
	if mac := g.mac(); r.macs[mac] == g {
		delete(r.macs, mac)
	}
}
