// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// ErrNAK is returned when the DHCP server refused an address.
var ErrNAK = errors.New("the DHCP server said NAK")

var broadcastIP = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// A Lease is what a DHCP server's ACK gives.
type Lease struct {
	Addr      netip.Prefix
	Gateway   netip.Addr // option 3, first
	DNS       []netip.Addr
	Server    netip.Addr       // option 54
	ServerMAC net.HardwareAddr // the ACK's Ethernet source
	Time      time.Duration    // option 51
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

// Discover broadcasts a DISCOVER and returns the first offer. Modifiers add options, such as a wish for an address.
func (g *Guest) Discover(mods ...dhcpv4.Modifier) (*dhcpv4.DHCPv4, error) {
	m, err := g.message(dhcpv4.MessageTypeDiscover, mods)
	if err != nil {
		return nil, err
	}
	reply, _, err := g.exchangeDHCP(m, toAll, dhcpv4.MessageTypeOffer)
	return reply, err
}

// Request broadcasts a REQUEST for an offer and returns the lease, or ErrNAK. The Guest does not use the address yet.
func (g *Guest) Request(offer *dhcpv4.DHCPv4, mods ...dhcpv4.Modifier) (Lease, error) {
	mods = append([]dhcpv4.Modifier{
		dhcpv4.WithTransactionID(offer.TransactionID),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr)),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(offer.ServerIdentifier())),
	}, mods...)
	return g.lease(toAll, mods)
}

// Reboot asks for the address that the Guest had before it was rebooted (INIT-REBOOT): a broadcast without server and
// client address. It returns the lease or ErrNAK; a server that does not know the Guest may stay silent (ErrTimeout).
func (g *Guest) Reboot(old netip.Addr) (Lease, error) {
	return g.lease(toAll,
		[]dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(old.AsSlice()))})
}

// Renew extends l by a unicast to its server (RENEWING, from T1 on).
func (g *Guest) Renew(l Lease) (Lease, error) {
	return g.lease(l.toServer(), []dhcpv4.Modifier{dhcpv4.WithClientIP(l.Addr.Addr().AsSlice())})
}

// Release gives l back by a unicast to its server. There is no answer. The Guest goes on using the address unless told
// otherwise.
func (g *Guest) Release(l Lease) error {
	m, err := g.message(dhcpv4.MessageTypeRelease, []dhcpv4.Modifier{
		dhcpv4.WithClientIP(l.Addr.Addr().AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(l.Server.AsSlice())),
	})
	if err != nil {
		return err
	}
	return g.Send(g.dhcpFrame(m, l.toServer()))
}

// SendDHCP broadcasts any message, however wrong, from the Guest's MAC address.
func (g *Guest) SendDHCP(m *dhcpv4.DHCPv4) error { return g.Send(g.dhcpFrame(m, toAll)) }

// ParseDHCP reads a frame with a DHCP reply on its way to a client.
func ParseDHCP(f []byte) (*dhcpv4.DHCPv4, error) {
	p, err := Parse(f)
	if err != nil {
		return nil, err
	}
	if p.Proto != ProtoUDP || p.SrcPort != dhcpv4.ServerPort || p.DstPort != dhcpv4.ClientPort {
		return nil, errors.New("parse DHCP reply: not UDP from port 67 to 68")
	}
	return dhcpv4.FromBytes(p.Data)
}

// route is how a DHCP message travels.
type route struct {
	mac      net.HardwareAddr
	src, dst netip.Addr
}

var toAll = route{mac: Broadcast, src: netip.IPv4Unspecified(), dst: broadcastIP}

func (l *Lease) toServer() route { return route{mac: l.ServerMAC, src: l.Addr.Addr(), dst: l.Server} }

// message is what all messages of the Guest have in common.
func (g *Guest) message(kind dhcpv4.MessageType, mods []dhcpv4.Modifier) (*dhcpv4.DHCPv4, error) {
	var xid dhcpv4.TransactionID
	binary.BigEndian.PutUint32(xid[:], g.ids.Add(1)<<8|uint32(g.MAC()[5]))
	all := append([]dhcpv4.Modifier{
		dhcpv4.WithHwAddr(g.MAC()),
		dhcpv4.WithTransactionID(xid),
		dhcpv4.WithMessageType(kind),
	}, mods...)
	if kind != dhcpv4.MessageTypeRelease {
		all = append(all, dhcpv4.WithOption(dhcpv4.OptHostName(g.opts.Name)), dhcpv4.WithRequestedOptions(
			dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer,
		))
	}
	m, err := dhcpv4.New(all...)
	if err != nil {
		return nil, fmt.Errorf("make DHCP %s: %w", kind, err)
	}
	return m, nil
}

func (g *Guest) dhcpFrame(m *dhcpv4.DHCPv4, to route) []byte {
	src, dst := netip.AddrPortFrom(to.src, dhcpv4.ClientPort), netip.AddrPortFrom(to.dst, dhcpv4.ServerPort)
	return EthernetFrame(to.mac, g.MAC(), TypeIPv4, UDPPacket(src, dst, m.ToBytes()))
}

// exchangeDHCP sends m and waits for a reply of the kind wanted or a NAK, which is an error.
func (g *Guest) exchangeDHCP(m *dhcpv4.DHCPv4, to route, want dhcpv4.MessageType) (*dhcpv4.DHCPv4, []byte, error) {
	match := func(f []byte) bool {
		r, err := ParseDHCP(f)
		return err == nil && g.accepts(f[:6]) && r.TransactionID == m.TransactionID && bytes.Equal(r.ClientHWAddr, g.MAC()) &&
			(r.MessageType() == want || r.MessageType() == dhcpv4.MessageTypeNak)
	}
	f, err := g.exchange(g.dhcpFrame(m, to), match)
	if err != nil {
		return nil, nil, fmt.Errorf("DHCP %s: %w", m.MessageType(), err)
	}
	r, err := ParseDHCP(f)
	if err != nil {
		return nil, nil, err
	}
	if r.MessageType() == dhcpv4.MessageTypeNak {
		return nil, nil, fmt.Errorf("DHCP %s: %w: %q", m.MessageType(), ErrNAK, r.Message())
	}
	return r, f, nil
}

// lease sends a REQUEST, whose answer is an ACK with an address.
func (g *Guest) lease(to route, mods []dhcpv4.Modifier) (Lease, error) {
	m, err := g.message(dhcpv4.MessageTypeRequest, mods)
	if err != nil {
		return Lease{}, err
	}
	ack, f, err := g.exchangeDHCP(m, to, dhcpv4.MessageTypeAck)
	if err != nil {
		return Lease{}, err
	}
	return newLease(ack, f)
}

// newLease reads an ACK that came in frame f.
func newLease(ack *dhcpv4.DHCPv4, f []byte) (Lease, error) {
	addr, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || addr.IsUnspecified() {
		return Lease{}, fmt.Errorf("read ACK: no address in %s", ack.Summary())
	}
	ones, bits := ack.SubnetMask().Size()
	if bits != 32 {
		return Lease{}, fmt.Errorf("read ACK: subnet mask %s", ack.SubnetMask())
	}
	l := Lease{
		Addr:      netip.PrefixFrom(addr, ones),
		ServerMAC: bytes.Clone(f[6:12]),
		Time:      ack.IPAddressLeaseTime(0),
	}
	l.Server, _ = netip.AddrFromSlice(ack.ServerIdentifier().To4())
	if r := ack.Router(); len(r) > 0 {
		l.Gateway, _ = netip.AddrFromSlice(r[0].To4())
	}
	for _, d := range ack.DNS() {
		if a, ok := netip.AddrFromSlice(d.To4()); ok {
			l.DNS = append(l.DNS, a)
		}
	}
	return l, nil
}
