// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// ErrNAK is returned when the DHCP server refused an address.
var ErrNAK = errors.New("the DHCP server said NAK")

var broadcastIP = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// A Lease is what a DHCP server's ACK gives.
type Lease struct {
	Addr      netip.Prefix
	Gateway   netip.Addr       // option 3, first
	Server    netip.Addr       // option 54
	ServerMAC net.HardwareAddr // the ACK's Ethernet source
}

// Configure gets a lease by DISCOVER and REQUEST and uses its address.
func (g *Guest) Configure() (Lease, error) {
	offer, err := g.Discover()
	if err != nil {
		return Lease{}, err
	}
	l, err := g.Request(offer)
	if err != nil {
		return Lease{}, err
	}
	g.SetAddr(l.Addr, l.Gateway)
	return l, nil
}

// Discover broadcasts a DISCOVER and returns the first offer.
func (g *Guest) Discover() (*dhcpv4.DHCPv4, error) {
	reply, _, err := g.exchangeDHCP(nil, dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeOffer)
	return reply, err
}

// Request broadcasts a REQUEST for an offer and returns the lease, or ErrNAK. The Guest does not use the address yet.
func (g *Guest) Request(offer *dhcpv4.DHCPv4) (Lease, error) {
	return g.lease(nil,
		dhcpv4.WithTransactionID(offer.TransactionID),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(offer.ServerIdentifier())),
	)
}

// Reboot asks for the address that the Guest had before it was rebooted (INIT-REBOOT): a broadcast without server and
// client address. It returns the lease or ErrNAK; a server that does not know the Guest may stay silent (ErrTimeout).
func (g *Guest) Reboot(old netip.Addr) (Lease, error) {
	return g.lease(nil, dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(old.AsSlice())))
}

// Renew extends l by a unicast to its server (RENEWING, from T1 on).
func (g *Guest) Renew(l Lease) (Lease, error) {
	return g.lease(&l, dhcpv4.WithClientIP(l.Addr.Addr().AsSlice()))
}

// Release gives l back by a unicast to its server. There is no answer. The Guest goes on using the address unless told
// otherwise.
func (g *Guest) Release(l Lease) error {
	m, err := dhcpv4.New(g.identity(dhcpv4.MessageTypeRelease, []dhcpv4.Modifier{
		dhcpv4.WithClientIP(l.Addr.Addr().AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(l.Server.AsSlice())),
	})...)
	if err != nil {
		return fmt.Errorf("make DHCP RELEASE: %w", err)
	}
	return g.Send(g.dhcpFrame(m, &l))
}

// SendDHCP broadcasts any message, however wrong, from the Guest's MAC address.
func (g *Guest) SendDHCP(m *dhcpv4.DHCPv4) error { return g.Send(g.dhcpFrame(m, nil)) }

// DHCP reads a DHCP reply on its way to a client.
func (p *Packet) DHCP() (*dhcpv4.DHCPv4, error) {
	if p.Proto != ProtoUDP || p.SrcPort != dhcpv4.ServerPort || p.DstPort != dhcpv4.ClientPort {
		return nil, errors.New("parse DHCP reply: not UDP from port 67 to 68")
	}
	return dhcpv4.FromBytes(p.Data)
}

// identity is what all messages of the Guest have in common, and mods, which may change it.
func (g *Guest) identity(kind dhcpv4.MessageType, mods []dhcpv4.Modifier) []dhcpv4.Modifier {
	var xid dhcpv4.TransactionID
	binary.BigEndian.PutUint32(xid[:], g.ids.Add(1)<<8|uint32(g.MAC()[5]))
	return append([]dhcpv4.Modifier{
		dhcpv4.WithHwAddr(g.MAC()), dhcpv4.WithTransactionID(xid), dhcpv4.WithMessageType(kind),
	}, mods...)
}

// dhcpFrame is a message to the server of a lease, or to all where that is nil.
func (g *Guest) dhcpFrame(m *dhcpv4.DHCPv4, to *Lease) []byte {
	mac, src, dst := Broadcast, netip.IPv4Unspecified(), broadcastIP
	if to != nil {
		mac, src, dst = to.ServerMAC, to.Addr.Addr(), to.Server
	}
	udp := UDPPacket(netip.AddrPortFrom(src, dhcpv4.ClientPort), netip.AddrPortFrom(dst, dhcpv4.ServerPort), m.ToBytes())
	return EthernetFrame(mac, g.MAC(), TypeIPv4, udp)
}

// exchangeDHCP sends a message and waits for a reply of the kind wanted, returned with its sender, or a NAK, which is an error.
func (g *Guest) exchangeDHCP(to *Lease, kind, want dhcpv4.MessageType, mods ...dhcpv4.Modifier) (*dhcpv4.DHCPv4, net.HardwareAddr, error) {
	m, err := dhcpv4.New(append(
		g.identity(kind, mods), dhcpv4.WithOption(dhcpv4.OptHostName(g.opts.Name)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer),
	)...)
	if err != nil {
		return nil, nil, fmt.Errorf("make DHCP %s: %w", kind, err)
	}
	p, err := g.exchange(g.dhcpFrame(m, to), func(p *Packet) bool {
		r, err := p.DHCP()
		return err == nil && r.TransactionID == m.TransactionID && bytes.Equal(r.ClientHWAddr, g.MAC()) &&
			(r.MessageType() == want || r.MessageType() == dhcpv4.MessageTypeNak)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("DHCP %s: %w", kind, err)
	}
	r, err := p.DHCP()
	if err == nil && r.MessageType() == dhcpv4.MessageTypeNak {
		err = fmt.Errorf("DHCP %s: %w: %q", kind, ErrNAK, r.Message())
	}
	return r, p.Src, err
}

// lease sends a REQUEST, whose answer is an ACK with an address.
func (g *Guest) lease(to *Lease, mods ...dhcpv4.Modifier) (Lease, error) {
	ack, server, err := g.exchangeDHCP(to, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeAck, mods...)
	if err != nil {
		return Lease{}, err
	}
	addr, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || addr.IsUnspecified() {
		return Lease{}, fmt.Errorf("read ACK: no address in %s", ack.Summary())
	}
	ones, bits := ack.SubnetMask().Size()
	if bits != 32 {
		return Lease{}, fmt.Errorf("read ACK: subnet mask %s", ack.SubnetMask())
	}
	l := Lease{Addr: netip.PrefixFrom(addr, ones), ServerMAC: server}
	l.Server, _ = netip.AddrFromSlice(ack.ServerIdentifier().To4())
	if r := ack.Router(); len(r) > 0 {
		l.Gateway, _ = netip.AddrFromSlice(r[0].To4())
	}
	return l, nil
}
