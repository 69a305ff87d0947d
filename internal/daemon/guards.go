// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/antispoof"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

var _ perclient.Guard = (*antispoof.Guard)(nil)

// guards keep the clients from sending in each other's name.
type guards struct {
	*antispoof.Registry
	cfg  *compat.Config
	keep func() // notes the leases for the next process; nil where the network's own DHCP server does. Set before there are ports
}

// guardClients makes the guards that cfg asks for, or nil, and has open tell them of the network.
func guardClients(cfg *compat.Config, open opener) (*guards, opener) {
	if !cfg.AntiSpoof {
		return nil, open
	}
	g := &guards{cfg: cfg}
	g.Registry = antispoof.New(func() {
		if g.keep != nil {
			g.keep()
		}
	})
	return g, func(ctx context.Context, o opening) (network.Network, error) {
		n, err := open(ctx, o)
		if err == nil {
			g.describe(n, o.kept)
		}
		return n, err
	}
}

// guard is what makes a client's guard; nil without guards.
func (g *guards) guard() func(perclient.Client, *slog.Logger, []byte) perclient.Guard {
	if g == nil {
		return nil
	}
	return func(c perclient.Client, log *slog.Logger, saved []byte) perclient.Guard {
		return g.Guard(c.MAC, log, saved)
	}
}

// describe tells of a network that has started, and of the leases that its file has.
func (g *guards) describe(n network.Network, kept *state.File) {
	info := n.Info()
	d := antispoof.Network{Subnet: info.Subnet, Gateway: info.Gateway, Reservations: g.cfg.Reservations}
	embedded, ok := n.(*usernet.Network)
	if ok {
		d.GatewayMAC, d.Reserved = embedded.GatewayMAC(), []netip.Addr{embedded.Alias()}
	} else { // the embedded network's server keeps its leases itself, and there is no stranger
		d.Strangers = true
		g.keep = func() { kept.SaveLeases(g.leases) }
	}
	g.Describe(d)
	now := time.Now()
	var leases []antispoof.Lease
	for _, l := range kept.Leases() {
		leases = append(leases, antispoof.Lease{MAC: l.MAC, IP: l.IP, Left: l.Expires.Sub(now)})
	}
	g.Leased(leases)
}

// leases are those known now, for the file.
func (g *guards) leases() []state.Lease {
	now := time.Now().Round(0)
	var leases []state.Lease
	for _, l := range g.Leases() {
		leases = append(leases, state.Lease{MAC: l.MAC, IP: l.IP, Expires: now.Add(l.Left)})
	}
	return leases
}
