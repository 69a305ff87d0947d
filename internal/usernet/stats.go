// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/usernet/dhcp"
)

// Stats are what the gateway counts.
type Stats struct {
	// Frames that reached the gateway and were dropped, by reason.
	Unwanted  uint64 // not for the gateway, or a protocol it does not speak
	Malformed uint64 // lengths or addresses that cannot be
	QueueFull uint64 // the client had too much waiting
	Restart   uint64 // arrived while the stack was being replaced after a failure
	// OutFull counts frames from the gateway that were dropped because too much waited.
	OutFull uint64

	TCPFlows, UDPFlows int // open now
	DHCP               dhcp.Stats
}

// Stats returns the counters. They are kept over a Close.
func (n *Network) Stats() Stats {
	d := &n.gw.drops
	s := Stats{
		Unwanted: d.unwanted.Load(), Malformed: d.malformed.Load(), QueueFull: d.queueFull.Load(),
		Restart: d.restart.Load(), OutFull: d.outFull.Load(),
	}
	s.TCPFlows, s.UDPFlows = n.gw.flows().counts()
	if n.dhcp != nil {
		s.DHCP = n.dhcp.Stats()
	}
	return s
}

// logStats logs what was dropped, once, at the end.
func (n *Network) logStats() {
	s := n.Stats()
	n.opts.Log.Debug("embedded network counters", "unwanted", s.Unwanted, "malformed", s.Malformed, "queue_full", s.QueueFull,
		"restart", s.Restart, "out_full", s.OutFull, "dhcp_malformed", s.DHCP.Malformed, "dhcp_foreign", s.DHCP.Foreign,
		"dhcp_port_full", s.DHCP.PortFull, "dhcp_pool_full", s.DHCP.PoolFull)
}
