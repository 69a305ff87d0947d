// SPDX-License-Identifier: Apache-2.0

package antispoof

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// protoIGMP is IPv4's number of it.
const protoIGMP = 2

// arp checks an ARP packet.
func (g *Guard) arp(f []byte, now time.Duration) reason {
	switch a, ok := watch.ParseARP(f); {
	case !ok || a.Op != watch.OpRequest && a.Op != watch.OpReply: // some receivers take other hardware types for Ethernet
		return malformed
	case a.MAC != g.mac():
		return forgedARP
	case a.Sender.IsUnspecified() && a.Op == watch.OpRequest: // a probe (RFC 5227)
		return forgedNothing
	case !g.holds(a.Sender, now):
		return forgedARP
	}
	return forgedNothing
}

// ipv4 checks an IPv4 packet.
func (g *Guard) ipv4(f []byte, now time.Duration) reason {
	header, u, ok := watch.ParseIPv4(f)
	if !ok {
		return malformed
	}
	src := netip.AddrFrom4([4]byte(header[12:16]))
	// Only the first fragment has the ports, and no other can change them.
	if header[9] == watch.ProtoUDP && binary.BigEndian.Uint16(header[6:])&0x1fff == 0 {
		if len(u) < watch.UDPLen {
			return malformed
		}
		switch sport, dport := binary.BigEndian.Uint16(u), binary.BigEndian.Uint16(u[2:]); {
		case sport == watch.PortServer || dport == watch.PortClient:
			return forgedDHCP // clients take what comes to their port, whatever port it is from
		case dport == watch.PortServer:
			return g.request(header, u, src, now)
		}
	}
	// A host without an address joins groups from there (RFC 3376 4.2.13).
	if !(header[9] == protoIGMP && src.IsUnspecified()) && !g.holds(src, now) {
		return forgedIPv4
	}
	return forgedNothing
}

// request checks a message to a DHCP server, the datagram u, and notes what it says. A server may believe it whatever its source
// is, so it has to be about the client itself.
func (g *Guard) request(header, u []byte, src netip.Addr, now time.Duration) reason {
	m, ok := watch.ParseDHCP(u)
	switch fragments := binary.BigEndian.Uint16(header[6:])&0x2000 != 0; {
	case fragments || !ok:
		return malformed
	case m.Op != watch.OpRequest || m.MAC != g.mac() || !m.Relay.IsUnspecified():
		return forgedDHCP
	case m.Kind == watch.OFFER || m.Kind == watch.ACK || m.Kind == watch.NAK:
		return forgedDHCP
	case !src.IsUnspecified() && !g.holds(src, now) && !(m.Client == src && g.had(src)):
		return forgedIPv4
	}
	switch m.Kind {
	case watch.RELEASE:
		g.released(m.Client)
	case watch.DECLINE:
		g.released(m.Requested)
	default:
		g.asked.Store(askedKnown | uint64(m.XID))
	}
	return forgedNothing
}

// ToClient looks at what goes to the client: the leases that its DHCP server gives it, and what strangers say of themselves.
func (g *Guard) ToClient(b frame.Batch) {
	n := g.reg.network.Load()
	if n == nil {
		return
	}
	it := b.Iter() // outside of the loop, which would copy it for each frame
	for it.Next() {
		if f := it.Frame(); watch.Interesting(f) && binary.BigEndian.Uint16(f[12:]) == watch.TypeIPv4 {
			g.answer(f, n)
		} else if n.Strangers {
			g.reg.outside(f)
		}
	}
}

// answer takes a DHCP message on its way to the client.
func (g *Guard) answer(f []byte, n *Network) {
	header, u, ok := watch.ParseIPv4(f)
	if !ok || n.Gateway.IsValid() && netip.AddrFrom4([4]byte(header[12:16])) != n.Gateway ||
		n.GatewayMAC != nil && watch.MACOf(f[6:]) != watch.MACOf(n.GatewayMAC) {
		return
	}
	m, ok := watch.ParseDHCP(u)
	if !ok || m.Op != watch.OpReply || m.MAC != g.mac() || g.asked.Load() != askedKnown|uint64(m.XID) {
		return
	}
	switch {
	case m.Kind == watch.NAK:
		g.released(netip.IPv4Unspecified())
	case m.Kind == watch.ACK && !m.Yours.IsUnspecified(): // there is none in the answer to INFORM
		if !g.acked(m.Yours, m.Lease, g.reg.now()) && !g.conflict.Swap(true) {
			g.log.Warn("the client may not use the address that DHCP gave it: another client uses it without a lease, or it belongs to the network (--anti-spoof); look for a guest with a static address",
				"mac", g.mac().Hardware().String(), "ip", m.Yours.String())
		}
	}
}
