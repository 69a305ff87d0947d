// SPDX-License-Identifier: Apache-2.0

// Package usernet is the embedded network: a learning bridge with a gateway of its own, all in this process and without
// privileges, on every system.
//
//	client ── port ─┐
//	client ── port ─┼─ bridge ── inlet ── gateway ─┬─ DHCP
//	client ── port ─┘    ^        (queue)          ├─ DNS
//	                     └─────── outlet ──────────┴─ TCP/IP stack: ARP, ping, flows to the outside and to the host
//
// The gateway is one more port of the bridge. Frames reach it through a bounded queue that its own goroutine serves, so
// the TCP/IP stack (gVisor's) never runs on a client's reader.
//
// The stack's work is per packet, so it sees few and large ones: TCP segments of a chunk from one guest that follow each other are
// joined (coalesce.go), and what it sends is cut into frames behind it (segment.go).
//
// In shared mode guests reach the outside through the gateway: TCP and UDP flows end in the stack and are opened again by
// the host (NAT). The host's loopback is reached through an alias, the last usable address of the subnet, which is also called
// host.internal, unless that is disabled. Addresses that mean something else on the host than in the guest are refused. Ports of
// the host that are forwarded lead the other way; guests see the gateway as the other end.
package usernet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ifid"
	"github.com/socket-vmnet2/socket_vmnet2/internal/usernet/dhcp"
	"github.com/socket-vmnet2/socket_vmnet2/internal/usernet/dns"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// A Network is the embedded network. It implements vnet.Network.
type Network struct {
	opts Options
	tune tuning
	plan plan
	log  *slog.Logger // limited: for what guests can provoke

	bridge *bridge.Bridge
	gw     *gateway
	port   *bridge.Port // the gateway's
	fwd    forwards
	dhcp   *dhcp.Server // nil without DHCP
	dns    *dns.Server  // nil without a name server
	ids    identities

	closing sync.Once
	workers sync.WaitGroup // the outlet's goroutine
}

var (
	_ vnet.Network = (*Network)(nil)
	_ vnet.Port    = (*port)(nil)
)

// Check tells whether New would refuse o, without starting anything. A port of the host that is in use shows only at New.
func Check(o Options) error {
	_, err := newPlan(o)
	return err
}

// New starts the network and logs its parameters. It returns ErrBridged for bridged mode.
func New(o Options) (*Network, error) { return newNetwork(o, tuning{}) }

func newNetwork(o Options, t tuning) (*Network, error) {
	o.setDefaults()
	p, err := newPlan(o)
	if err != nil {
		return nil, err
	}
	n := &Network{opts: o, tune: t, plan: p, log: o.Log}
	n.ids.init(p.gatewayID)
	if p.dhcpStart.IsValid() {
		n.startDHCP()
	}
	if p.dns {
		if n.dns, err = dns.New(n.dnsConfig()); err != nil {
			return nil, fmt.Errorf("start embedded network: %w", err)
		}
	}
	if err := n.fwd.open(n); err != nil {
		return nil, fmt.Errorf("start embedded network: %w", err)
	}
	n.bridge = bridge.New(bridge.Options{MaxClients: o.MaxClients, Log: o.Log})
	if err := n.startGateway(); err != nil {
		n.fwd.close(n)
		_ = n.bridge.Close()
		return nil, fmt.Errorf("start embedded network: %w", err)
	}
	n.logParameters()
	n.fwd.serve()
	return n, nil
}

func (n *Network) startDHCP() {
	if p := &n.plan; !p.canLease() && len(n.opts.Reservations) == 0 {
		n.opts.Log.Warn("no guest will get an address by DHCP, the range has none but those of the network itself; use a larger one",
			"start", p.dhcpStart.String(), "end", p.dhcpEnd.String())
	}
	n.dhcp = dhcp.New(n.dhcpConfig())
}

func (n *Network) dhcpConfig() dhcp.Config {
	c := dhcp.Config{
		Subnet: n.plan.subnet, Gateway: n.plan.gateway,
		First: n.plan.dhcpStart, Last: n.plan.dhcpEnd, Reserved: n.plan.reserved(),
		Router: n.plan.nat, DNS: n.plan.dns, MTU: uint16(n.plan.mtu), Fixed: n.fixed(),
		Store: n.opts.Leases, Log: n.log, Wall: n.opts.Clock, Elapsed: n.tune.elapsed,
		NamesTaken: namesTaken(n.opts.DNSRecords),
	}
	if n.plan.dns {
		c.Domain = Domain
	}
	return c
}

// fixed is the reservations as the DHCP server wants them.
func (n *Network) fixed() map[[6]byte]netip.Addr {
	fixed := map[[6]byte]netip.Addr{}
	for _, r := range n.opts.Reservations {
		fixed[[6]byte(r.MAC)] = r.Addr
	}
	return fixed
}

// dnsConfig adds our own names to the records that were asked for, which win.
func (n *Network) dnsConfig() dns.Config {
	records := map[string]netip.Addr{"gateway.internal": n.plan.gateway, hostName: n.plan.alias}
	maps.Copy(records, n.opts.DNSRecords)
	c := dns.Config{
		Domain: Domain, Records: records, Subnet: n.plan.subnet, Forward: n.opts.Mode == vnet.ModeShared,
		ResolvConf: n.opts.ResolvConf, Log: n.log, Port: n.tune.dnsPort,
	}
	if n.dhcp != nil && !n.opts.Isolate { // guests that may not reach each other need not know of each other
		c.Guests = n.dhcp
	}
	return c
}

// serveDNS serves a guest's TCP connection to the gateway's port 53.
func (n *Network) serveDNS(src bridge.PortID, c net.Conn) { n.dns.ServeTCP(uint16(src), c) }

func (n *Network) startGateway() error {
	g := &gateway{net: n, plan: &n.plan, ran: make(chan struct{})}
	g.in = newInlet(n.plan.mac, n.plan.maxFrame(), &g.drops)
	g.out = newOutlet(n.plan.maxFrame(), g.send, &g.drops)
	e, err := newEngine(n, g.out)
	if err != nil {
		return err
	}
	g.engine = e
	n.port, err = n.bridge.Attach(bridge.PortOptions{
		Name: "gateway", StaticMACs: []net.HardwareAddr{n.plan.mac}, KnownOnly: true, Trusted: true,
	}, g.in)
	if err != nil {
		e.close()
		return err
	}
	n.gw = g
	go g.run()
	n.workers.Go(g.out.run)
	return nil
}

// logParameters logs what vmnet.framework reports when an interface starts, in its order.
func (n *Network) logParameters() {
	end := n.plan.dhcpEnd
	if !end.IsValid() {
		end = n.plan.lastGuest()
	}
	for _, kv := range [][2]string{
		{"vmnet_mac_address", n.plan.mac.String()},
		{"vmnet_mtu", fmt.Sprint(n.plan.mtu)},
		{"vmnet_max_packet_size", fmt.Sprint(frame.MinLen + n.plan.mtu)},
		{"vmnet_interface_id", ifid.String(n.plan.gatewayID)},
		{"vmnet_start_address", n.plan.gateway.String()},
		{"vmnet_end_address", end.String()},
		{"vmnet_subnet_mask", n.plan.mask()},
	} {
		n.opts.Log.Info("interface parameter", "key", kv[0], "value", kv[1])
	}
}

// Attach implements vnet.Network.
func (n *Network) Attach(ctx context.Context, o vnet.PortOptions, toClient frame.Sink) (vnet.Port, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, err := n.ids.take(o)
	if err != nil {
		return nil, fmt.Errorf("attach %s: %w", o.Name, err)
	}
	p, err := n.bridge.Attach(bridge.PortOptions{Name: o.Name, MACs: o.MACs, Isolated: n.opts.Isolate}, toClient)
	if err != nil {
		n.ids.free(id)
		return nil, err
	}
	n.gw.guestCame(p.ID())
	return &port{Port: p, net: n, id: id}, nil
}

// Info implements vnet.Network.
func (n *Network) Info() vnet.NetworkInfo {
	return vnet.NetworkInfo{
		Backend: "usernet", Mode: n.opts.Mode, Subnet: n.plan.subnet, Gateway: n.plan.gateway,
		DHCPStart: n.plan.dhcpStart, DHCPEnd: n.plan.dhcpEnd, MTU: n.plan.mtu, MaxFrame: frame.MaxLen,
		Isolated: n.opts.Isolate,
	}
}

// Alias is the address under which guests reach the host's loopback, the zero Addr without one.
func (n *Network) Alias() netip.Addr { return n.plan.alias }

// GatewayMAC is the gateway's, which is the DHCP server's too.
func (n *Network) GatewayMAC() net.HardwareAddr { return slices.Clone(n.plan.mac) }

// Close implements vnet.Network. It ends every flow and returns when all goroutines have ended.
func (n *Network) Close() error {
	n.closing.Do(func() {
		_ = n.bridge.Close() // nothing is delivered or sent any more
		if n.dns != nil {
			n.dns.Close() // before the flows: some of them wait for it
		}
		n.fwd.close(n) // no new flow from outside
		n.gw.close()
		n.gw.out.close()
		n.workers.Wait()
		n.logStats()
	})
	return nil
}

// port is a client's port: the bridge's, with the network's facts.
type port struct {
	*bridge.Port
	net  *Network
	id   ifid.ID
	once sync.Once
}

// Info implements vnet.Port.
func (p *port) Info() vnet.PortInfo {
	return vnet.PortInfo{
		MAC: ifid.MAC(p.id), MTU: p.net.plan.mtu, MaxFrame: frame.MaxLen, InterfaceID: ifid.String(p.id),
	}
}

// Close implements vnet.Port.
func (p *port) Close() error {
	err := p.Port.Close()
	p.once.Do(func() {
		p.net.gw.guestGone(p.ID())
		p.net.ids.free(p.id)
	})
	return err
}

// Domain is where the name server has the guests, by the name that each told the DHCP server. DHCP tells guests to look there for
// names without a dot.
const Domain = "vmnet.internal"

// hostName is the host's. Without an alias it has no address, and nobody else is asked for one.
const hostName = "host.internal"

// namesTaken are the names in Domain that records have. A record is never shadowed by a guest.
func namesTaken(records map[string]netip.Addr) map[string]bool {
	taken := map[string]bool{}
	for name := range records {
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if label, ok := strings.CutSuffix(name, "."+Domain); ok {
			taken[label] = true
		}
	}
	return taken
}
