// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// maxLeases is how many are remembered, as in the state file.
const maxLeases = 8192

// A store keeps leases across restarts. *state.File is one.
type store interface {
	// Leases is what was kept, read once at the start.
	Leases() []state.Lease
	// SaveLeases tells that the leases changed. snapshot returns them; it is called later, from another goroutine, as
	// often as needed.
	SaveLeases(snapshot func() []state.Lease)
}

// leases are what gateways told of their DHCP server. The next gateway begins with them.
type leases struct {
	plan     *gateway.Plan
	reserved map[netip.Addr]net.HardwareAddr // each for the guest with that one
	store    store
	wall     func() time.Time

	mu    sync.Mutex
	byMAC map[[6]byte]lease
}

type lease struct {
	dhcp.Lease
	ends time.Time // on the monotonic clock, so that a jump of the wall clock changes nothing
}

func (t *leases) init(o *Options, f *gateway.Plan) {
	t.plan, t.store, t.wall = f, o.Leases, o.tune.wall
	t.byMAC, t.reserved = map[[6]byte]lease{}, map[netip.Addr]net.HardwareAddr{}
	for _, r := range o.Reservations {
		t.reserved[r.Addr] = r.MAC
	}
	if t.store == nil {
		return
	}
	now, wall := time.Now(), t.wall()
	for _, l := range t.store.Leases() {
		left := min(l.Expires.Sub(wall), dhcp.LeaseTime)
		t.set(lease{dhcp.Lease{MAC: l.MAC, IP: l.IP, Hostname: l.Hostname, Name: l.Name}, now.Add(left)})
	}
}

// check tells what a gateway may not say of a lease.
func (t *leases) check(l dhcp.Lease) error {
	switch {
	case len(l.MAC) != 6 || l.MAC[0]&1 != 0 || bytes.Equal(l.MAC, make([]byte, 6)):
		return fmt.Errorf("a lease for %q, which is not a guest's MAC address", l.MAC)
	case !t.permits(l.IP, l.MAC):
		return fmt.Errorf("a lease of %s, which %s cannot have", l.IP, l.MAC)
	case l.Left > dhcp.LeaseTime:
		return fmt.Errorf("a lease of %s for %v", l.IP, l.Left)
	case l.Hostname != state.CleanHostname(l.Hostname) || l.Name != strings.ToLower(state.CleanHostname(l.Name)):
		return fmt.Errorf("a lease of %s for a host that no host is called", l.IP)
	}
	return nil
}

// permits tells whether a guest can have an address.
func (t *leases) permits(ip netip.Addr, mac net.HardwareAddr) bool {
	f := t.plan
	if owner, ok := t.reserved[ip]; ok {
		return bytes.Equal(owner, mac)
	}
	return f.DHCPStart.IsValid() && ip.Is4() && f.DHCPStart.Compare(ip) <= 0 && ip.Compare(f.DHCPEnd) <= 0 && !slices.Contains(f.Reserved(), ip)
}

// leased takes what a gateway says of a lease.
func (t *leases) leased(l dhcp.Lease) error {
	if err := t.check(l); err != nil {
		return err
	}
	t.mu.Lock()
	t.set(lease{l, time.Now().Add(l.Left)})
	t.mu.Unlock()
	if t.store != nil {
		t.store.SaveLeases(t.snapshot)
	}
	return nil
}

// set enters l, and takes its address from others. The caller holds mu.
func (t *leases) set(l lease) {
	mac := [6]byte(l.MAC)
	maps.DeleteFunc(t.byMAC, func(m [6]byte, other lease) bool { return m == mac || other.IP == l.IP })
	if len(t.byMAC) >= maxLeases {
		old := slices.MinFunc(slices.Collect(maps.Values(t.byMAC)), func(a, b lease) int { return a.ends.Compare(b.ends) })
		delete(t.byMAC, [6]byte(old.MAC))
	}
	t.byMAC[mac] = l
}

// snapshot is the leases as they go to the store.
func (t *leases) snapshot() []state.Lease {
	wall := t.wall().Round(0)
	all := t.all()
	out := make([]state.Lease, 0, len(all))
	for _, l := range all {
		out = append(out, state.Lease{MAC: l.MAC, IP: l.IP, Expires: wall.Add(l.Left), Hostname: l.Hostname, Name: l.Name})
	}
	return out
}

// all are the leases, by address, with what is left of them now.
func (t *leases) all() []dhcp.Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	out := make([]dhcp.Lease, 0, len(t.byMAC))
	for _, l := range t.byMAC {
		l.Left = l.ends.Sub(now)
		out = append(out, l.Lease)
	}
	slices.SortFunc(out, func(a, b dhcp.Lease) int { return a.IP.Compare(b.IP) })
	return out
}
