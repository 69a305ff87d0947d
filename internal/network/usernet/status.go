// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Status describes the network. It may be called at any time, also after Close. The first is nil without a DHCP server. What both
// count starts with the network. It waits for a gateway that does not answer no longer than a tenth of a second.
func (n *Network) Status() (*status.DHCP, *status.Usernet) {
	hello, now := n.gw.ask()
	c := &now.Stats
	u := &status.Usernet{
		HostAddress: n.Alias(),
		TCPFlows:    c.TCPFlows, UDPFlows: c.UDPFlows,
		Drops: map[string]uint64{
			"unwanted": c.Unwanted + n.gw.unwanted.Load(), "malformed": c.Malformed, "queue_full": n.gw.full.Load(),
			"restart": n.gw.lost.Load(), "out_full": c.OutFull,
		},
		Forwards: n.fwd.status(),
		Gateway:  n.gw.status(hello),
	}
	if !n.plan.DHCPStart.IsValid() {
		return nil, u
	}
	return n.dhcpStatus(&now), u
}

// status describes the gateway's process.
func (s *supervisor) status(hello gateway.Hello) status.Gateway {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := status.Gateway{State: s.state, Restarts: s.Restarts}
	if s.err != nil {
		g.Error = text(s.err.Error())
	}
	if s.life != nil && s.state == running {
		g.PID, g.UID, g.Version, g.Protocol = s.life.proc.Pid, hello.UID, hello.Version, hello.Protocol
		g.Rights = hello.Error
	}
	return g
}

func (n *Network) dhcpStatus(a *gateway.Answer) *status.DHCP {
	d := &status.DHCP{
		Start: n.plan.DHCPStart, End: n.plan.DHCPEnd, Size: a.DHCPSize, Leased: a.DHCPLeased, Leases: []status.Lease{},
		Unanswered: map[string]uint64{
			"malformed": a.Malformed, "foreign": a.Foreign, "port_full": a.PortFull, "pool_full": a.PoolFull,
		},
	}
	wall := n.opts.tune.wall().UTC()
	for _, l := range n.leases.all() {
		if l.Left <= 0 {
			continue
		}
		name := l.Name
		if name != "" {
			name += "." + gateway.Domain
		}
		_, reserved := n.leases.reserved[l.IP]
		d.Leases = append(d.Leases, status.Lease{
			IP: l.IP, MAC: l.MAC.String(), Hostname: l.Hostname, Name: name, Expires: wall.Add(l.Left), Reserved: reserved,
		})
	}
	return d
}
