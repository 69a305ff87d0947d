// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// logParameters logs what macOS says of a started interface, as socket_vmnet does.
func (n *Network) logParameters(level slog.Level, i *iface) {
	for _, e := range i.params.Entries {
		n.log.Log(context.Background(), level, "interface parameter", "key", e.Key, "value", e.Value)
	}
}

// subnet is the network's IPv4 subnet, invalid when macOS does not tell.
func (n *Network) subnet(i *iface) netip.Prefix {
	if object := n.object.Load(); object != nil {
		if s := (*object).Subnet(); s.IsValid() {
			return s
		}
	}
	return paramSubnet(i.params)
}

// describe is the network as macOS tells it.
func (n *Network) describe(anchor *iface) network.Info {
	i := network.Info{
		Backend: "vmnet", Mode: n.opts.Mode, Subnet: n.subnet(anchor), MTU: anchor.params.MTU, MaxFrame: anchor.maxPacket,
		Isolated: n.opts.Isolate, Offload: n.opts.Offload,
	}
	if n.opts.Mode == network.ModeBridged {
		i.Interface = n.opts.Interface
	}
	if i.MTU <= 0 || i.MTU+frame.MinLen > i.MaxFrame {
		i.MTU = i.MaxFrame - frame.MinLen
	}
	if !i.Subnet.IsValid() {
		return i
	}
	if i.Gateway = anchor.params.Start; !i.Gateway.IsValid() {
		i.Gateway = firstHost(i.Subnet)
	}
	if n.opts.DisableDHCP || n.opts.NetworkID != [16]byte{} && n.opts.Mode == network.ModeHost || n.opts.Mode == network.ModeBridged {
		return i
	}
	i.DHCPStart, i.DHCPEnd = i.Gateway.Next(), anchor.params.End
	if !i.DHCPEnd.IsValid() {
		i.DHCPEnd = lastHost(i.Subnet)
	}
	return i
}

// paramSubnet is the subnet that an interface was started with, invalid when macOS does not tell.
func paramSubnet(p api.Params) netip.Prefix {
	if !p.Start.Is4() || !p.Mask.Is4() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(p.Start, maskBits(p.Mask)).Masked()
}

// A Status is what the network tells of its interfaces, for status and selftest.
type Status struct {
	API      string     // apiNetwork or apiInterface
	Why      string     // that one
	AnchorID [16]byte   // what the clients' interface ids are derived from
	Anchor   api.Params // as the anchor was last started
	Own      int        // clients with an interface of their own
	Shared   int        // clients that share the anchor

	// Counters since New.
	Starts        uint64 // interfaces started, the anchor among them
	StartFailures uint64
	Restarts      uint64 // interfaces that died
	Promoted      uint64 // clients that shared the anchor and got an interface of their own
	Exhausted     uint64 // frames dropped because macOS had no buffer

	LastFailure error // of the last start that failed, nil while none has

	Wakes    uint64 // times that the host woke up
	LastWake wakeUp
}

// Status returns the counters. It may be called after Close.
func (n *Network) Status() Status {
	s := Status{
		API: n.choice.api, Why: n.choice.why, AnchorID: n.id, Own: int(n.own.Load()), Shared: int(n.shared.count.Load()),
		Starts: n.starts.Load(), StartFailures: n.failures.Load(), Restarts: n.restarts.Load(), Promoted: n.promoted.Load(),
		Exhausted: n.exhausted.Load(), Wakes: n.wakes.Load(),
	}
	if w := n.wake.Load(); w != nil {
		s.LastWake = *w
	}
	if err := n.lastFailure.Load(); err != nil {
		s.LastFailure = *err
	}
	if p := n.anchor.Load(); p != nil {
		s.Anchor = *p
	}
	return s
}
