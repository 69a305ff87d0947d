// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// A saved is what a client holds besides its lease, for the next image of the process.
type saved struct {
	MAC    net.HardwareAddr  `json:"mac,omitempty"`
	Static netip.Addr        `json:"static,omitzero"` // without a lease
	Ended  netip.Addr        `json:"ended,omitzero"`
	IPv6   []netip.Addr      `json:"ipv6,omitempty"`
	Asked  uint64            `json:"asked,omitempty"`
	Drops  map[string]uint64 `json:"drops,omitempty"`
}

// Save is what the next image makes a Guard of. It is called when nothing else is called any more.
func (g *Guard) Save() []byte {
	g.reg.mu.Lock()
	defer g.reg.mu.Unlock()
	v := saved{MAC: g.mac().Hardware(), Ended: g.ended, Asked: g.asked.Load(), Drops: map[string]uint64{}}
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
	b, _ := json.Marshal(v) // all of it can be
	return b
}

// restore has g, which is new, hold what Save told. Its lease it has with its first frame, unless another client has the address
// without one.
func (g *Guard) restore(text []byte) error {
	var v saved
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("restore a client's addresses: %w", err)
	}
	r, mac := g.reg, watch.MACOf(v.MAC)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(v.IPv6) > maxIPv6:
		return fmt.Errorf("it has %d IPv6 addresses", len(v.IPv6))
	case mac != 0 && (!mac.IsStation() || r.macs[mac] != nil):
		return fmt.Errorf("%s is another client's, or none", v.MAC)
	}
	g.asked.Store(v.Asked)
	g.ended = v.Ended
	for i, name := range reasonNames {
		g.drops[i].Store(v.Drops[name])
	}
	if mac == 0 {
		return nil
	}
	r.give(g, mac)
	if v.Static.Is4() && r.used[v.Static] == nil {
		r.used[v.Static] = g
		g.own.Store(&holding{ip: v.Static, mac: mac, until: watch.Forever})
	}
	for _, a := range v.IPv6 {
		if a.Is6() && r.used[a] == nil {
			r.used[a] = g
			g.six = append(g.six, used{a, r.now()})
		}
	}
	return nil
}
