// SPDX-License-Identifier: Apache-2.0

// Package usernet is the embedded network: a learning bridge in this process and a gateway in a process of its own, without
// privileges, on every system.
//
//	client ── port ─┐
//	client ── port ─┼─ bridge ── queue ── writer ══ pair of sockets ══ gateway (internal/gateway)
//	client ── port ─┘    ^                              ║
//	                     └──────────── reader ══════════╝
//
// The gateway is one more port of the bridge. Frames reach it through a bounded queue with a turn for each client, so no client's
// reader waits for it. Its process is supervised: one that ends or hangs is replaced, and its successor begins with the leases, the
// forwards and the names of the one before. What it says is checked, and one that says what cannot be is replaced, too.
//
// Only this side writes state, binds ports of the host and knows the clients.
package usernet

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
)

// A Network is the embedded network. It implements network.Network.
type Network struct {
	opts Options
	plan gateway.Plan

	bridge *bridge.Bridge
	port   *bridge.Port // the gateway's
	gw     supervisor
	fwd    forwards
	leases leases
	ids    network.IDs

	closing  sync.Once
	detached atomic.Bool // gateway and forwards are another network's
}

var (
	_ network.Network = (*Network)(nil)
	_ network.Port    = (*port)(nil)
)

// New starts the network and logs its parameters. It refuses what o.Plan does, and ports of the host that are in use. The gateway may
// still be starting when it returns: frames for it wait.
func New(o Options) (*Network, error) {
	o.setDefaults()
	plan, err := o.Plan()
	if err != nil {
		return nil, err
	}
	n := &Network{opts: o, plan: plan}
	n.ids.Init(plan.ID)
	n.leases.init(&o, &plan)
	var inherited []Socket
	if o.Inherited != nil {
		inherited = o.Inherited.Sockets
	}
	if err := n.fwd.open(&n.opts, inherited); err != nil {
		return nil, fmt.Errorf("start embedded network: %w", err)
	}
	n.bridge = bridge.New(bridge.Options{Log: o.Log})
	n.gw.init(n)
	n.port, err = n.bridge.Attach(bridge.PortOptions{Name: "gateway", StaticMACs: []net.HardwareAddr{plan.MAC}, KnownOnly: true}, &n.gw)
	if err != nil {
		n.fwd.close(len(inherited))
		return nil, fmt.Errorf("start embedded network: %w", err)
	}
	n.logParameters()
	n.gw.start(o.Inherited)
	return n, nil
}

// logParameters logs what vmnet.framework reports when an interface starts, in its order, and the forwards.
func (n *Network) logParameters() {
	f := &n.plan
	if f.DHCPStart.IsValid() && !f.CanLease() && len(n.opts.Reservations) == 0 {
		n.opts.Log.Warn("no guest will get an address by DHCP, the range has none but those of the network itself; use a larger one",
			"start", f.DHCPStart.String(), "end", f.DHCPEnd.String())
	}
	end := f.DHCPEnd
	if !end.IsValid() {
		end = f.LastGuest()
	}
	for _, kv := range [][2]string{
		{"vmnet_mac_address", f.MAC.String()},
		{"vmnet_mtu", fmt.Sprint(f.MTU)},
		{"vmnet_max_packet_size", fmt.Sprint(frame.MinLen + f.MTU)},
		{"vmnet_interface_id", network.IDText(f.ID)},
		{"vmnet_start_address", f.Gateway.String()},
		{"vmnet_end_address", end.String()},
		{"vmnet_subnet_mask", net.IP(net.CIDRMask(f.Subnet.Bits(), 32)).String()},
	} {
		n.opts.Log.Info("interface parameter", "key", kv[0], "value", kv[1])
	}
	for i, w := range n.opts.Forwards {
		if n.fwd.socket(i) != nil {
			n.tellForward(i, w)
		}
	}
}

func (n *Network) tellForward(i int, f network.Forward) {
	n.opts.Log.Info("forwarding a port", "proto", f.Proto, "address", n.fwd.address(i).String(), "guest", f.Guest.String())
}

// Attach implements network.Network.
func (n *Network) Attach(ctx context.Context, o network.PortOptions, toClient frame.Sink) (network.Port, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, err := n.ids.Take(o)
	if err != nil {
		return nil, fmt.Errorf("attach %s: %w", o.Name, err)
	}
	session := o.Session
	if session == 0 {
		session = unnumbered | rand.Uint64N(unnumbered)
	}
	p, err := n.bridge.Attach(bridge.PortOptions{Name: o.Name, Source: session, MACs: o.MACs, Isolated: n.opts.Isolate, Hold: o.Hold}, toClient)
	if err != nil {
		n.ids.Free(id)
		return nil, err
	}
	return &port{Port: p, net: n, id: id, session: session}, nil
}

// Info implements network.Network.
func (n *Network) Info() network.Info {
	f := &n.plan
	return network.Info{
		Backend: "usernet", Mode: n.opts.Mode, Subnet: f.Subnet, Gateway: f.Gateway,
		DHCPStart: f.DHCPStart, DHCPEnd: f.DHCPEnd, MTU: f.MTU, MaxFrame: frame.MaxLen, Isolated: n.opts.Isolate,
	}
}

// Alias is the address under which guests reach the host's loopback, the zero Addr without one.
func (n *Network) Alias() netip.Addr { return n.plan.Alias }

// GatewayMAC is the gateway's, which is the DHCP server's too.
func (n *Network) GatewayMAC() net.HardwareAddr { return slices.Clone(n.plan.MAC) }

// Close implements network.Network. It ends the gateway and with it every flow, and returns when all goroutines have ended.
func (n *Network) Close() error {
	n.closing.Do(func() {
		_ = n.bridge.Close() // nothing is delivered or sent any more
		if !n.detached.Load() {
			n.gw.close()
			n.fwd.close(0)
		}
	})
	return nil
}

// unnumbered marks the numbers of sessions that came without one.
const unnumbered = 1 << 62

// port is a client's port: the bridge's, with the network's plan.
type port struct {
	*bridge.Port
	net     *Network
	id      network.ID
	session uint64 // of the client, as the gateway knows it
	once    sync.Once
}

// Info implements network.Port.
func (p *port) Info() network.PortInfo {
	return network.PortInfo{
		MAC: network.MACOf(p.id), MTU: p.net.plan.MTU, MaxFrame: frame.MaxLen, InterfaceID: network.IDText(p.id),
	}
}

// Close implements network.Port.
func (p *port) Close() error {
	err := p.Port.Close()
	p.once.Do(func() {
		p.net.gw.gone(p.session)
		p.net.ids.Free(p.id)
	})
	return err
}

// Options describe the network. Only Config.Mode and Start are required.
type Options struct {
	gateway.Config

	// Start starts a gateway on its end of a pair of sockets, which it takes over.
	Start func(end *os.File) (*os.Process, error)
	// Inherited is a gateway that runs already, and goes on with Resume; nil = one is started. After an error of New it is still the
	// caller's.
	Inherited *Inherited

	// LateForwards lets the network start without the ports that others have now, and tries those again. Else New fails.
	LateForwards bool
	Leases       store // keeps leases across restarts; nil = they end with the network
	Log          *slog.Logger

	tune tuning
}

// tuning is what tests change.
type tuning struct {
	wall     func() time.Time
	tick     time.Duration // in the place of tickTime
	minDelay time.Duration // in the place of minDelay
}

func (o *Options) setDefaults() {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.tune.wall == nil {
		o.tune.wall = time.Now
	}
	o.tune.tick, o.tune.minDelay = cmp.Or(o.tune.tick, tickTime), cmp.Or(o.tune.minDelay, minDelay)
}
