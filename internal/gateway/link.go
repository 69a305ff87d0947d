// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"math"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// link is the Ethernet interface of the gateway's TCP/IP stack. What the stack sends goes to the outlet; the Endpoint, which has no
// room for a packet, is the rest.
type link struct {
	*channel.Endpoint
	plan *Plan
	out  *outlet
}

var (
	_ stack.LinkEndpoint = (*link)(nil)
	_ stack.GSOEndpoint  = (*link)(nil)
)

// newLink makes it. Checksums of what arrives are not looked at: the frames come over a socket of this host, and many guests leave
// them to the hardware that is not there. The outlet cuts large TCP packets and computes their checksums.
func newLink(p *Plan, out *outlet) *link {
	l := &link{Endpoint: channel.New(0, uint32(p.MTU), tcpip.LinkAddress(p.MAC)), plan: p, out: out}
	l.LinkEPCapabilities = stack.CapabilityResolutionRequired | stack.CapabilityRXChecksumOffload
	l.SupportedGSOKind = stack.HostGSOSupported
	return l
}

// WritePackets implements stack.LinkWriter. What does not fit the outlet is dropped and counted there.
func (l *link) WritePackets(pkts stack.PacketBufferList) (int, tcpip.Error) {
	n := 0
	for _, pkt := range pkts.AsSlice() {
		l.write(pkt)
		n++
	}
	return n, nil
}

func (l *link) write(pkt *stack.PacketBuffer) {
	proto := pkt.NetworkProtocolNumber
	if proto == header.ARPProtocolNumber && !l.outgoingARP(header.ARP(pkt.NetworkHeader().Slice())) {
		return
	}
	src := pkt.EgressRoute.LocalLinkAddress
	if src == "" {
		src = l.LinkAddress()
	}
	header.Ethernet(pkt.LinkHeader().Push(header.EthernetMinimumSize)).Encode(&header.EthernetFields{
		Type: proto, SrcAddr: src, DstAddr: pkt.EgressRoute.RemoteLinkAddress,
	})
	l.out.putPacket(pkt)
}

// outgoingARP prepares an ARP packet and tells whether it may leave.
//
// The stack asks for a guest's MAC address in the name of the sender of a packet for it, which may be the alias or an address
// of the outside. Guests may not answer that, and inspectARP would not take the answer, so the gateway asks instead. Since
// the stack takes every address for its own, it is held to answers about those that are.
func (l *link) outgoingARP(a header.ARP) bool {
	if !a.IsValid() {
		return false
	}
	switch a.Op() {
	case header.ARPRequest:
		copy(a.ProtocolAddressSender(), l.plan.Gateway.AsSlice())
		return true
	case header.ARPReply:
		return l.plan.own(netip.AddrFrom4([4]byte(a.ProtocolAddressSender())))
	}
	return false
}

// MaxHeaderLength implements stack.LinkEndpoint.
func (l *link) MaxHeaderLength() uint16 { return header.EthernetMinimumSize }

// GSOMaxSize implements stack.GSOEndpoint: the longest IPv4 packet.
func (l *link) GSOMaxSize() uint32 { return math.MaxUint16 }

// ARPHardwareType implements stack.LinkEndpoint.
func (l *link) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
