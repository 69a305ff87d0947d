// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Saved is what a Registry hands to the process that replaces it.
type Saved struct {
	Leases []savedLease `json:"leases,omitempty"`
	Guards []savedGuard `json:"guards,omitempty"`
}

type savedLease struct {
	MAC  string        `json:"mac"`
	IP   netip.Addr    `json:"ip"`
	Left time.Duration `json:"left"`
}

// savedGuard is a client. What it holds is kept for it until it is there again.
type savedGuard struct {
	ID     uint64            `json:"id"`
	MAC    string            `json:"mac,omitempty"`
	Static netip.Addr        `json:"static,omitzero"` // without a lease
	Ended  netip.Addr        `json:"ended,omitzero"`
	IPv6   []netip.Addr      `json:"ipv6,omitempty"`
	Asked  uint64            `json:"asked,omitempty"`
	Drops  map[string]uint64 `json:"drops,omitempty"`
}

// Save is called when no Guard is in use.
func (r *Registry) Save() Saved {
	leases := r.Leases()
	r.mu.Lock()
	defer r.mu.Unlock()
	var s Saved
	for _, l := range leases {
		s.Leases = append(s.Leases, savedLease{l.MAC.String(), l.IP, l.Left})
	}
	for _, guards := range []map[uint64]*Guard{r.guards, r.pending} {
		for _, g := range guards {
			s.Guards = append(s.Guards, g.save())
		}
	}
	return s
}

// save is called with reg.mu held.
func (g *Guard) save() savedGuard {
	s := savedGuard{ID: g.id, Asked: g.asked.Load(), Drops: map[string]uint64{}}
	if mac := mac48(g.mac.Load()); mac != 0 {
		s.MAC = mac.hardware().String()
	}
	if ip := ip4(g.ip.Load()); ip != 0 && g.reg.static[ip] == g {
		s.Static = ip.addr()
	}
	if g.ended != 0 {
		s.Ended = g.ended.addr()
	}
	for _, u := range g.six {
		s.IPv6 = append(s.IPv6, u.addr.addr())
	}
	for i, name := range reasonNames {
		if n := g.drops[i].Load(); n > 0 {
			s.Drops[name] = n
		}
	}
	return s
}

// Restore takes over what Save returned, before any Guard is made. A Guard that is then made with the id of a former one goes on
// where that was; what is held for those that do not come is free after Restored.
func (r *Registry) Restore(s Saved) error {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range s.Leases {
		mac, err := parseMAC(l.MAC)
		if err != nil || !l.IP.Is4() || l.Left <= 0 {
			return fmt.Errorf("restore lease of %s to %q: it is none", l.IP, l.MAC)
		}
		r.lease(mac, addr4(l.IP), after(now, l.Left), now)
	}
	for _, v := range s.Guards {
		g, err := r.restore(v, now)
		if err != nil {
			return fmt.Errorf("restore client %d: %w", v.ID, err)
		}
		r.pending[v.ID] = g
	}
	for _, g := range r.pending { // after what is held without a lease, which comes first
		if g.ip.Load() == 0 {
			r.settle(g, r.leaseOf(mac48(g.mac.Load()), now))
		}
	}
	return nil
}

// Restored tells, after Restore, which clients there are. What is held for the others is free: they left while the process was
// replaced, and their guests may come back as new clients.
func (r *Registry) Restored(present []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, g := range r.pending {
		if !slices.Contains(present, id) {
			delete(r.pending, id)
			r.release(g)
		}
	}
}

// restore makes the guard of a client that is not there yet. The caller holds mu.
func (r *Registry) restore(v savedGuard, now time.Duration) (*Guard, error) {
	g := r.newGuard(v.ID)
	g.asked.Store(v.Asked)
	if v.Ended.Is4() {
		g.ended = addr4(v.Ended)
	}
	for i, name := range reasonNames {
		g.drops[i].Store(v.Drops[name])
	}
	switch {
	case r.pending[v.ID] != nil:
		return nil, errors.New("it is there twice")
	case len(v.IPv6) > maxIPv6:
		return nil, fmt.Errorf("it has %d IPv6 addresses", len(v.IPv6))
	case v.MAC == "":
		return g, nil
	}
	mac, err := parseMAC(v.MAC)
	if err != nil {
		return nil, err
	}
	if r.macs[mac] != nil {
		return nil, fmt.Errorf("%s is another client's", v.MAC)
	}
	r.own(g, mac)
	if ip := addr4(v.Static); ip != 0 && r.static[ip] == nil {
		r.static[ip] = g
		g.set(ip, forever)
	}
	for _, a := range v.IPv6 {
		if b := a.As16(); a.Is6() && r.six[load6(b[:])] == nil {
			r.six[load6(b[:])] = g
			g.six = append(g.six, used{load6(b[:]), now})
		}
	}
	return g, nil
}

func parseMAC(s string) (mac48, error) {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 || !load48(m).isStation() {
		return 0, fmt.Errorf("%q is not the address of a network interface", s)
	}
	return load48(m), nil
}
