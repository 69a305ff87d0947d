// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// The network of a daemon that was given no gateway, as vmnet.framework's shared mode has it in socket_vmnet's examples.
var defaultGateway = netip.AddrFrom4([4]byte{192, 168, 105, 1})

const defaultPrefixLen = 24

// plan is who has which address.
type plan struct {
	subnet    netip.Prefix // masked
	gateway   netip.Addr
	broadcast netip.Addr
	alias     netip.Addr // of the host; the zero Addr without a way to its loopback, and where the subnet is too small
	dhcpStart netip.Addr // both zero when there is no DHCP server
	dhcpEnd   netip.Addr
	mac       net.HardwareAddr // of the gateway
	gatewayID network.ID       // of the gateway's interface
	mtu       int              // bytes, layer 3
	nat       bool             // guests reach the outside
	dns       bool             // the gateway has a name server
	private   netip.AddrPort   // of the host: no TCP leads there; zero = nowhere
}

// newPlan checks the options and works out the addresses.
func newPlan(c Config) (plan, error) {
	if c.Mode == network.ModeBridged {
		return plan{}, ErrBridged
	}
	if c.Mode != network.ModeHost && c.Mode != network.ModeShared {
		return plan{}, fmt.Errorf("start embedded network: unknown mode %q", c.Mode)
	}
	if !c.Gateway.IsValid() {
		if c.DHCPEnd.IsValid() || c.PrefixLen != 0 {
			return plan{}, fmt.Errorf("start embedded network: an end address or a mask needs a gateway address")
		}
		c.Gateway = defaultGateway
	}
	if c.PrefixLen == 0 {
		c.PrefixLen = defaultPrefixLen
	}
	if !c.Gateway.Is4() || c.PrefixLen < 8 || c.PrefixLen > 30 {
		return plan{}, fmt.Errorf("start embedded network: %s/%d is not an IPv4 subnet between /8 and /30", c.Gateway, c.PrefixLen)
	}
	p := plan{
		gateway: c.Gateway, subnet: netip.PrefixFrom(c.Gateway, c.PrefixLen).Masked(),
		mtu: cmp.Or(c.MTU, defaultMTU), nat: c.Mode == network.ModeShared && !c.DisableNAT44, dns: !c.DisableDNSProxy,
		private: c.Private,
	}
	if p.mtu < minMTU || p.mtu > maxMTU {
		return plan{}, fmt.Errorf("start embedded network: MTU %d is not from %d to %d bytes", p.mtu, minMTU, maxMTU)
	}
	p.broadcast = lastAddr(p.subnet)
	if !p.canHaveGateway() {
		return plan{}, fmt.Errorf("start embedded network: gateway %s cannot be the address of a host in %s", p.gateway, p.subnet)
	}
	if !c.DisableHostLoopback {
		p.setAlias()
	}
	if err := p.setPool(c.DHCPEnd); err != nil {
		return plan{}, err
	}
	if c.DisableDHCP || c.Mode == network.ModeHost && c.NetworkIdentifier != "" {
		p.dhcpStart, p.dhcpEnd = netip.Addr{}, netip.Addr{}
	}
	p.identify()
	return p, p.checkGuests(c)
}

// setAlias sets the host's alias: the last address, or the one before if that is the gateway's.
func (p *plan) setAlias() {
	if p.subnet.Bits() > 29 {
		return
	}
	if p.alias = p.broadcast.Prev(); p.alias == p.gateway {
		p.alias = p.alias.Prev()
	}
}

// canHaveGateway tells whether the gateway's address is one that a host can have.
func (p *plan) canHaveGateway() bool {
	g := p.gateway
	return g != p.subnet.Addr() && g != p.broadcast && !g.IsLoopback() && !g.IsMulticast() && g.As4()[0] != 0 && g.As4()[0] < 240
}

// checkGuests refuses reservations and forwards whose addresses no guest can have.
func (p *plan) checkGuests(c Config) error {
	for _, r := range c.Reservations {
		if len(r.MAC) != 6 {
			return fmt.Errorf("start embedded network: reserve %s: %q is no MAC address", r.Addr, r.MAC)
		}
		if err := p.checkGuest(r.Addr); err != nil {
			return fmt.Errorf("start embedded network: reserve %s for %s: %w", r.Addr, r.MAC, err)
		}
		if !p.dhcpStart.IsValid() {
			return fmt.Errorf("start embedded network: reserve %s for %s: there is no DHCP server", r.Addr, r.MAC)
		}
	}
	if len(c.Forwards) > maxForwards {
		return fmt.Errorf("start embedded network: %d forwards are more than %d", len(c.Forwards), maxForwards)
	}
	for _, f := range c.Forwards {
		if err := p.checkGuest(f.Guest.Addr()); err != nil {
			return fmt.Errorf("start embedded network: forward %s port %d to %s: %w", f.Proto, f.HostPort, f.Guest, err)
		}
	}
	return nil
}

// checkGuest tells why no guest can have address a.
func (p *plan) checkGuest(a netip.Addr) error {
	switch {
	case !p.subnet.Contains(a):
		return fmt.Errorf("%s is not in the network %s", a, p.subnet)
	case a == p.alias:
		return fmt.Errorf("%s is the host's own address in the embedded network", a)
	case !p.isGuest(a):
		return fmt.Errorf("%s is no address of a guest in %s", a, p.subnet)
	}
	return nil
}

// maxFrame is the longest frame to and from the gateway, in bytes. It takes full Ethernet frames even with a smaller MTU:
// guests that did not hear of that send them.
func (p *plan) maxFrame() int { return frame.MinLen + max(p.mtu, defaultMTU) }

// setPool sets the DHCP range: gateway + 1 up to end. Without an end it is x.x.x.254 as in socket_vmnet where that is
// possible, else the last address; with a gateway at the top, the addresses below it. The end is moved down
// to an address that a guest may have: it is logged and told to clients, who may give it to one.
func (p *plan) setPool(end netip.Addr) error {
	p.dhcpStart = p.gateway.Next()
	if end.IsValid() {
		if !p.subnet.Contains(end) || !p.gateway.Less(end) {
			return fmt.Errorf("start embedded network: DHCP end %s is not above gateway %s in %s", end, p.gateway, p.subnet)
		}
		p.dhcpEnd = end
	} else {
		b := p.gateway.As4()
		b[3] = 254
		p.dhcpEnd = netip.AddrFrom4(b)
		if !p.subnet.Contains(p.dhcpEnd) || !p.gateway.Less(p.dhcpEnd) {
			p.dhcpEnd = p.broadcast.Prev()
		}
		if !p.gateway.Less(p.dhcpEnd) {
			p.dhcpStart, p.dhcpEnd = p.subnet.Addr().Next(), p.gateway.Prev()
		}
	}
	for p.dhcpStart.Less(p.dhcpEnd) && slices.Contains(p.reserved(), p.dhcpEnd) {
		p.dhcpEnd = p.dhcpEnd.Prev()
	}
	return nil
}

// lastGuest is the last address that a guest may have. A /30 has one too.
func (p *plan) lastGuest() netip.Addr {
	a := p.broadcast.Prev()
	for slices.Contains(p.reserved(), a) {
		a = a.Prev()
	}
	return a
}

// reserved are the addresses that are never leased.
func (p *plan) reserved() []netip.Addr { return []netip.Addr{p.gateway, p.alias, p.broadcast} }

// canLease tells whether the DHCP range has an address that is not reserved. Only three are, so four tell.
func (p *plan) canLease() bool {
	for ip, n := p.dhcpStart, 0; n < 4 && ip.Compare(p.dhcpEnd) <= 0; ip, n = ip.Next(), n+1 {
		if !slices.Contains(p.reserved(), ip) {
			return true
		}
	}
	return false
}

// identify derives the gateway's MAC address and UUID from its address and subnet, so that they survive restarts and the
// guests' ARP entries stay right.
func (p *plan) identify() {
	h := sha256.Sum256([]byte("socket_vmnet2 usernet gateway " + netip.PrefixFrom(p.gateway, p.subnet.Bits()).String()))
	p.mac = net.HardwareAddr{0x5a, 0x94, 0xef, h[0], h[1], h[2]} // locally administered, individual
	u := network.ID(h[3:19])
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8 (RFC 9562: custom), variant 10
	p.gatewayID = u
}

// own tells whether the gateway answers for ip.
func (p *plan) own(ip netip.Addr) bool { return ip == p.gateway || ip == p.alias && ip.IsValid() }

// lastAddr is the highest address of an IPv4 prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | (1<<(32-p.Bits()) - 1)
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}
