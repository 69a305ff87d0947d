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

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// The network of a daemon that was given no gateway, as vmnet.framework's shared mode has it in socket_vmnet's examples.
var defaultGateway = netip.AddrFrom4([4]byte{192, 168, 105, 1})

const defaultPrefixLen = 24

// A Plan is what follows from a Config: above all which addresses there are.
type Plan struct {
	Subnet             netip.Prefix // masked
	Gateway            netip.Addr
	Alias              netip.Addr       // of the host's loopback; the zero Addr without a way to it, and where the subnet is too small
	DHCPStart, DHCPEnd netip.Addr       // both zero when there is no DHCP server
	MAC                net.HardwareAddr // of the gateway
	ID                 network.ID       // of the gateway's interface
	MTU                int              // bytes, layer 3

	broadcast netip.Addr
	nat       bool           // guests reach the outside
	dns       bool           // the gateway has a name server
	private   netip.AddrPort // of the host: no TCP leads there; zero = nowhere
	ports     []uint16       // of the host's loopback; none: all
}

// Plan works out what follows from c. What parses the command line has checked each value, and against each other; this refuses what
// only the embedded network cannot do, and addresses that are not in the network of a daemon that was given none.
func (c Config) Plan() (Plan, error) {
	if c.Mode == network.ModeBridged {
		return Plan{}, ErrBridged
	}
	if !c.Gateway.IsValid() {
		c.Gateway = defaultGateway
	}
	p := Plan{
		Gateway: c.Gateway, Subnet: netip.PrefixFrom(c.Gateway, cmp.Or(c.PrefixLen, defaultPrefixLen)).Masked(),
		MTU: cmp.Or(c.MTU, defaultMTU), nat: c.Mode == network.ModeShared && !c.DisableNAT44, dns: !c.DisableDNSProxy,
		private: c.Private, ports: c.LoopbackPorts,
	}
	p.broadcast = lastAddr(p.Subnet)
	if !c.DisableHostLoopback && p.Subnet.Bits() <= 29 { // the last address, or the one before if that is the gateway's
		if p.Alias = p.broadcast.Prev(); p.Alias == p.Gateway {
			p.Alias = p.Alias.Prev()
		}
	}
	if !c.DisableDHCP && (c.Mode != network.ModeHost || c.NetworkIdentifier == "") {
		p.setPool(c.DHCPEnd)
	}
	// The MAC address and the UUID follow from address and subnet, so that they survive restarts and the guests' ARP entries stay right.
	h := sha256.Sum256([]byte("socket_vmnet2 usernet gateway " + netip.PrefixFrom(p.Gateway, p.Subnet.Bits()).String()))
	p.MAC = net.HardwareAddr{0x5a, 0x94, 0xef, h[0], h[1], h[2]} // locally administered, individual
	p.ID = network.ID(h[3:19])
	p.ID[6], p.ID[8] = p.ID[6]&0x0f|0x80, p.ID[8]&0x3f|0x80 // version 8 (RFC 9562: custom), variant 10
	return p, p.checkGuests(c)
}

// checkGuests refuses reservations and forwards whose addresses no guest can have.
func (p *Plan) checkGuests(c Config) error {
	for _, r := range c.Reservations {
		if err := p.checkGuest(r.Addr); err != nil {
			return fmt.Errorf("start embedded network: reserve %s for %s: %w", r.Addr, r.MAC, err)
		}
	}
	if len(c.Forwards) > maxForwards {
		return fmt.Errorf("start embedded network: %d forwards are more than %d", len(c.Forwards), maxForwards)
	}
	for _, f := range c.Forwards {
		if err := p.checkGuest(f.Guest.Addr()); err != nil {
			return fmt.Errorf("start embedded network: --vmnet-forward=%s: %w", f, err)
		}
	}
	return nil
}

// checkGuest tells why no guest can have address a.
func (p *Plan) checkGuest(a netip.Addr) error {
	switch {
	case !p.Subnet.Contains(a):
		return fmt.Errorf("%s is not in the network %s", a, p.Subnet)
	case a == p.Alias:
		return fmt.Errorf("%s is the host's own address in the embedded network", a)
	case !p.isGuest(a):
		return fmt.Errorf("%s is not an address of a guest in %s", a, p.Subnet)
	}
	return nil
}

// MaxFrame is the longest frame to and from the gateway, in bytes. It takes full Ethernet frames even with a smaller MTU:
// guests that did not hear of that send them.
func (p *Plan) MaxFrame() int { return frame.MinLen + max(p.MTU, defaultMTU) }

// setPool sets the DHCP range: gateway + 1 up to end. Without an end it is x.x.x.254 as in socket_vmnet where that is
// possible, else the last address; with a gateway at the top, the addresses below it. The end is moved down
// to an address that a guest may have: it is logged and told to clients, which may give it to a guest.
func (p *Plan) setPool(end netip.Addr) {
	p.DHCPStart, p.DHCPEnd = p.Gateway.Next(), end
	if !end.IsValid() {
		b := p.Gateway.As4()
		b[3] = 254
		p.DHCPEnd = netip.AddrFrom4(b)
		if !p.Subnet.Contains(p.DHCPEnd) || !p.Gateway.Less(p.DHCPEnd) {
			p.DHCPEnd = p.broadcast.Prev()
		}
		if !p.Gateway.Less(p.DHCPEnd) {
			p.DHCPStart, p.DHCPEnd = p.Subnet.Addr().Next(), p.Gateway.Prev()
		}
	}
	for p.DHCPStart.Less(p.DHCPEnd) && slices.Contains(p.Reserved(), p.DHCPEnd) {
		p.DHCPEnd = p.DHCPEnd.Prev()
	}
}

// LastGuest is the last address that a guest may have. A /30 has one too.
func (p *Plan) LastGuest() netip.Addr {
	a := p.broadcast.Prev()
	for slices.Contains(p.Reserved(), a) {
		a = a.Prev()
	}
	return a
}

// Reserved are the addresses that are never leased.
func (p *Plan) Reserved() []netip.Addr { return []netip.Addr{p.Gateway, p.Alias, p.broadcast} }

// CanLease tells whether the DHCP range has an address that is not reserved. setPool has left such a one at its end, if there is one.
func (p *Plan) CanLease() bool { return !slices.Contains(p.Reserved(), p.DHCPEnd) }

// own tells whether the gateway answers for ip.
func (p *Plan) own(ip netip.Addr) bool { return ip == p.Gateway || ip == p.Alias && ip.IsValid() }

// lastAddr is the highest address of an IPv4 prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	n := binary.BigEndian.Uint32(b[:]) | (1<<(32-p.Bits()) - 1)
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// target says where a flow to dst leads on the host, and whether it may go there at all. The alias leads to the host's
// loopback; everything else, where there is a way out, to itself. Refused are addresses that mean something else on the host than
// they mean in the guest: the subnet, loopback, link-local, multicast, broadcast and 0.0.0.0/8.
func (p *Plan) target(dst netip.AddrPort) (netip.AddrPort, bool) {
	a := dst.Addr()
	if a == p.Alias && a.IsValid() {
		return netip.AddrPortFrom(loopback4, dst.Port()), dst.Port() != 0 && (len(p.ports) == 0 || slices.Contains(p.ports, dst.Port()))
	}
	if !p.nat || !a.Is4() || dst.Port() == 0 {
		return netip.AddrPort{}, false
	}
	b := a.As4()
	if p.Subnet.Contains(a) || a.IsLoopback() || a.IsLinkLocalUnicast() || b[0] == 0 || b[0] >= 224 {
		return netip.AddrPort{}, false
	}
	return dst, true
}

// leadsToPrivate tells whether a connection to dst, which is a target, would end at the private port. All addresses of the host
// lead there if it listens on all: the dialling goroutine asks which these are, so that no other flow waits.
func (p *Plan) leadsToPrivate(dst netip.AddrPort) bool {
	at := p.private.Addr().Unmap()
	if !at.IsValid() || dst.Port() != p.private.Port() {
		return false
	}
	if !at.IsUnspecified() {
		return dst.Addr() == at
	}
	return dst.Addr() == loopback4 || isHosts(dst.Addr())
}

// isHosts tells whether a is an address of this host. Where the system does not tell, it is.
func isHosts(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(x net.Addr) bool {
		n, ok := x.(*net.IPNet)
		return ok && n.IP.Equal(a.AsSlice())
	})
}
