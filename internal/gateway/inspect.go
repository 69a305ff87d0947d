// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// verdict is what becomes of a frame that reached the gateway.
type verdict uint8

const (
	dropMalformed verdict = iota
	dropUnwanted
	toStack // ARP, echo requests, TCP and UDP flows
	toDHCP
	toDNS
)

const (
	portDNS        = 53
	portDHCPServer = 67
	portDHCPClient = 68
)

// inspect decides on a frame before the stack sees it. The stack is promiscuous, because it must take what is addressed to
// the whole world, so everything it must not answer ends here: ARP and echo for other addresses, other ICMP, and whatever
// pretends to come from the gateway or from outside the subnet.
func (p *Plan) inspect(f []byte) verdict {
	if !Wants([6]byte(p.MAC), f) {
		return dropUnwanted
	}
	eth := header.Ethernet(f)
	if f[6]&1 != 0 || [6]byte(f[6:12]) == [6]byte(p.MAC) {
		return dropMalformed
	}
	body := f[frame.MinLen:]
	if eth.Type() == header.ARPProtocolNumber {
		return p.inspectARP(body)
	}
	ip := header.IPv4(body)
	if !ip.IsValid(len(body)) {
		return dropMalformed
	}
	src, dst := netip.AddrFrom4(ip.SourceAddress().As4()), netip.AddrFrom4(ip.DestinationAddress().As4())
	if ip.TransportProtocol() == header.UDPProtocolNumber && !fragmented(ip) {
		if v := p.inspectService(ip, src, dst); v != toStack {
			return v
		}
	}
	switch {
	case !p.isGuest(src):
		return dropMalformed
	case [6]byte(f[:6]) != [6]byte(p.MAC):
		return dropUnwanted // broadcasts, DHCP apart
	}
	return p.inspectTransport(ip, dst)
}

// Wants tells whether the gateway with that MAC address can have an interest in f at all.
func Wants(mac [6]byte, f []byte) bool {
	dst := [6]byte(f[:6])
	if dst != mac && dst != [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} {
		return false
	}
	t := header.Ethernet(f).Type()
	return t == header.IPv4ProtocolNumber || t == header.ARPProtocolNumber
}

// inspectARP lets questions about the gateway's addresses and answers to its own questions pass.
func (p *Plan) inspectARP(body []byte) verdict {
	a := header.ARP(body)
	if !a.IsValid() {
		return dropMalformed
	}
	sender := netip.AddrFrom4([4]byte(a.ProtocolAddressSender()))
	target := netip.AddrFrom4([4]byte(a.ProtocolAddressTarget()))
	switch {
	case !p.isGuest(sender) && !sender.IsUnspecified(): // unspecified: a probe for an address conflict
		return dropMalformed
	case a.Op() == header.ARPRequest && p.own(target):
		return toStack
	case a.Op() == header.ARPReply && target == p.Gateway:
		return toStack
	}
	return dropUnwanted
}

// inspectService finds datagrams for the DHCP and DNS servers.
func (p *Plan) inspectService(ip header.IPv4, src, dst netip.Addr) verdict {
	u := header.UDP(ip.Payload())
	if len(u) < header.UDPMinimumSize || int(u.Length()) < header.UDPMinimumSize || int(u.Length()) > len(u) {
		return dropMalformed
	}
	switch {
	case u.DestinationPort() == portDHCPServer && (dst == p.Gateway || dst == broadcastAddr || dst == p.broadcast):
		if u.SourcePort() != portDHCPClient && u.SourcePort() != portDHCPServer { // the latter is a relay's
			return dropMalformed
		}
		return toDHCP
	case u.DestinationPort() == portDNS && dst == p.Gateway && p.isGuest(src) && p.dns:
		return toDNS
	}
	return toStack
}

// inspectTransport decides on a unicast packet from a guest.
func (p *Plan) inspectTransport(ip header.IPv4, dst netip.Addr) verdict {
	switch ip.TransportProtocol() {
	case header.TCPProtocolNumber, header.UDPProtocolNumber:
		if dst.IsMulticast() || dst.IsUnspecified() || dst == broadcastAddr || dst == p.broadcast {
			return dropUnwanted
		}
		return toStack
	case header.ICMPv4ProtocolNumber:
		if !p.own(dst) {
			return dropUnwanted
		}
		if ip.FragmentOffset() == 0 && (len(ip.Payload()) == 0 || header.ICMPv4(ip.Payload()).Type() != header.ICMPv4Echo) {
			return dropUnwanted
		}
		return toStack
	}
	return dropUnwanted
}

var broadcastAddr = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// isGuest tells whether a may be the address of a guest.
func (p *Plan) isGuest(a netip.Addr) bool {
	return p.Subnet.Contains(a) && !p.own(a) && a != p.broadcast && a != p.Subnet.Addr()
}

func fragmented(ip header.IPv4) bool {
	return ip.FragmentOffset() != 0 || ip.Flags()&header.IPv4FlagMoreFragments != 0
}
