// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Status describes the network. It may be called at any time, also after Close. The first is nil without a DHCP server. What both
// count starts with the network.
func (n *Network) Status() (*status.DHCP, *status.Usernet) {
	s := n.Stats()
	u := &status.Usernet{
		HostAddress: n.Alias(),
		TCPFlows:    s.TCPFlows, UDPFlows: s.UDPFlows,
		Drops: map[string]uint64{
			"unwanted": s.Unwanted, "malformed": s.Malformed, "queue_full": s.QueueFull, "restart": s.Restart, "out_full": s.OutFull,
		},
		Forwards: n.fwd.status(),
	}
	if n.dhcp == nil {
		return nil, u
	}
	return n.dhcpStatus(s), u
}

func (n *Network) dhcpStatus(s Stats) *status.DHCP {
	usage := n.dhcp.Usage()
	d := &status.DHCP{
		Start: n.plan.dhcpStart, End: n.plan.dhcpEnd, Size: usage.Size, Leased: usage.Leased, Leases: []status.Lease{},
		Unanswered: map[string]uint64{
			"malformed": s.DHCP.Malformed, "foreign": s.DHCP.Foreign, "port_full": s.DHCP.PortFull, "pool_full": s.DHCP.PoolFull,
		},
	}
	for _, l := range usage.Leases {
		name := l.Name
		if name != "" {
			name += "." + Domain
		}
		d.Leases = append(d.Leases, status.Lease{
			IP: l.IP, MAC: l.MAC.String(), Hostname: l.Hostname, Name: name, Expires: l.Expires.UTC(), Reserved: l.Reserved,
		})
	}
	return d
}

// status describes the forwards, in the order in which they were asked for.
func (fwd *forwards) status() []status.Forward {
	out := make([]status.Forward, 0, len(fwd.all))
	for _, f := range fwd.all {
		one := status.Forward{Proto: f.Proto, Host: f.address().String(), Guest: f.Guest.String()}
		if err := f.failing.Load(); err != nil {
			one.Error = (*err).Error()
		}
		out = append(out, one)
	}
	return out
}

// fail notes why f takes nothing now, nil that it does again.
func (f *forward) fail(err error) {
	switch {
	case err != nil:
		f.failing.Store(&err)
	case f.failing.Load() != nil:
		f.failing.Store(nil)
	}
}
