// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
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
	var s Saved
	for _, l := range r.Leases() {
		s.Leases = append(s.Leases, savedLease{l.MAC.String(), l.IP, l.Left})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.guards {
		v := savedGuard{ID: g.id, MAC: g.mac().Hardware().String(), Ended: g.ended, Asked: g.asked.Load(), Drops: map[string]uint64{}}
		if own := g.own.Load(); own != nil && !own.leased {
			v.Static = own.ip
		}
		for _, u := range g.six {
			v.IPv6 = append(v.IPv6, u.addr)
		}
		for i, name := range reasonNames {
			if n := g.drops[i].Load(); n > 0 {
				v.Drops[name] = n
			}
		}
		s.Guards = append(s.Guards, v)
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
		r.lease(mac, l.IP, after(now, l.Left), now)
	}
	for _, v := range s.Guards {
		if err := r.restore(v, now); err != nil {
			return fmt.Errorf("restore client %d: %w", v.ID, err)
		}
	}
	for _, g := range r.guards { // after what is held without a lease, which comes first
		if g.own.Load() == nil {
			r.settle(g, now)
		}
	}
	return nil
}

// Restored tells, after Restore, which clients there are. What is held for the others is free: they left while the process was
// replaced, and their guests may come back as new clients.
func (r *Registry) Restored(present []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, g := range r.guards {
		if g.log == nil && !slices.Contains(present, id) {
			g.release()
		}
	}
}

// restore makes the guard of a client that is not there yet. The caller holds mu.
func (r *Registry) restore(v savedGuard, now time.Duration) error {
	switch {
	case r.guards[v.ID] != nil:
		return errors.New("it is there twice")
	case len(v.IPv6) > maxIPv6:
		return fmt.Errorf("it has %d IPv6 addresses", len(v.IPv6))
	}
	g := r.newGuard(v.ID)
	g.asked.Store(v.Asked)
	g.ended = v.Ended
	for i, name := range reasonNames {
		g.drops[i].Store(v.Drops[name])
	}
	if v.MAC == "" {
		return nil
	}
	mac, err := parseMAC(v.MAC)
	if err != nil {
		return err
	}
	if r.macs[mac] != nil {
		return fmt.Errorf("%s is another client's", v.MAC)
	}
	r.give(g, mac)
	if v.Static.Is4() && r.used[v.Static] == nil {
		r.used[v.Static] = g
		g.own.Store(&holding{ip: v.Static, mac: mac, until: watch.Forever})
	}
	for _, a := range v.IPv6 {
		if a.Is6() && r.used[a] == nil {
			r.used[a] = g
			g.six = append(g.six, used{a, now})
		}
	}
	return nil
}

func parseMAC(s string) (watch.MAC, error) {
	m, err := net.ParseMAC(s)
	if err != nil || len(m) != 6 || !watch.MACOf(m).IsStation() {
		return 0, fmt.Errorf("%q is not the address of a network interface", s)
	}
	return watch.MACOf(m), nil
}
