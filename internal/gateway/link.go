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

// link is the Ethernet interface of the gateway's TCP/IP stack. Of the Endpoint, which has no room for a packet, it takes only what
// never changes: its address and capabilities, and that there is no goroutine to wait for.
type link struct {
	*channel.Endpoint
	plan *Plan
	out  *outlet

	dispatcher stack.NetworkDispatcher // the stack's side, set while the interface exists
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

// deliver passes a packet without its Ethernet header to the stack. The caller keeps its reference.
func (l *link) deliver(proto tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	if d := l.dispatcher; d != nil {
		d.DeliverNetworkPacket(proto, pkt)
	}
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

// MTU implements stack.LinkEndpoint.
func (l *link) MTU() uint32 { return uint32(l.plan.MTU) }

// MaxHeaderLength implements stack.LinkEndpoint.
func (l *link) MaxHeaderLength() uint16 { return header.EthernetMinimumSize }

// GSOMaxSize implements stack.GSOEndpoint: the longest IPv4 packet.
func (l *link) GSOMaxSize() uint32 { return math.MaxUint16 }

// Attach implements stack.LinkEndpoint.
func (l *link) Attach(d stack.NetworkDispatcher) { l.dispatcher = d }

// IsAttached implements stack.LinkEndpoint.
func (l *link) IsAttached() bool { return l.dispatcher != nil }

// ARPHardwareType implements stack.LinkEndpoint.
func (l *link) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
