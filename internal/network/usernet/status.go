// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Status describes the network. It may be called at any time, also after Close. The first is nil without a DHCP server. What both
// count starts with the network. What the gateway counts is as it said last, at a tick.
func (n *Network) Status() (*status.DHCP, *status.Usernet) {
	described, now := n.gw.status()
	c := &now.Stats
	u := &status.Usernet{
		HostAddress: n.Alias(),
		TCPFlows:    c.TCPFlows, UDPFlows: c.UDPFlows,
		Drops: map[string]uint64{
			"unwanted": c.Unwanted + n.gw.unwanted.Load(), "malformed": c.Malformed, "queue_full": n.gw.full.Load(),
			"restart": n.gw.lost.Load(), "out_full": c.OutFull,
		},
		Forwards: n.fwd.status(),
		Gateway:  described,
	}
	if !n.plan.DHCPStart.IsValid() {
		return nil, u
	}
	return n.dhcpStatus(&now), u
}

// status describes the gateway's process, and what all of them have counted.
func (s *supervisor) status() (status.Gateway, gateway.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := status.Gateway{State: s.state, Restarts: s.Restarts}
	if s.err != nil {
		g.Error = text(s.err.Error())
	}
	if l := s.life.Load(); l != nil && s.state == running {
		g.PID, g.UID, g.Version, g.Protocol, g.Rights = l.proc.Pid, s.Hello.UID, s.Hello.Version, s.Hello.Protocol, s.Hello.Error
	}
	return g, add(s.Last, s.Counters)
}

func (n *Network) dhcpStatus(a *gateway.Answer) *status.DHCP {
	d := &status.DHCP{
		Start: n.plan.DHCPStart, End: n.plan.DHCPEnd, Size: a.DHCPSize, Leased: a.DHCPLeased, Leases: []status.Lease{},
		Unanswered: map[string]uint64{
			"malformed": a.Malformed, "foreign": a.Foreign, "port_full": a.PortFull, "pool_full": a.PoolFull,
		},
	}
	listed, wall := 0, n.opts.tune.wall().UTC()
	for _, l := range n.leases.all() {
		if l.Left <= 0 {
			continue
		}
		name := l.Name
		if name != "" {
			name += "." + gateway.Domain
		}
		_, reserved := n.leases.reserved[l.IP]
		if !reserved {
			listed++
		}
		d.Leases = append(d.Leases, status.Lease{
			IP: l.IP, MAC: l.MAC.String(), Hostname: l.Hostname, Name: name, Expires: wall.Add(l.Left), Reserved: reserved,
		})
	}
	d.Leased = max(d.Leased, min(listed, d.Size)) // the gateway's count may be older than its last lease
	return d
}
