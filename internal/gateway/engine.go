// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const nicID = 1

const (
	// tcpBuffer is the receive buffer, of which half is the window, and the largest send buffer of a connection to a guest in
	// bytes. With half of it a busy host's processors had to change hands for each 10 KB, and took 10 to 20 % longer.
	tcpBuffer = 1 << 20
	// crowd is how many connections a guest has when new ones get buffers of crowdBuffer bytes to send, and twice that to receive. A
	// guest whose maxFlows connections are read at neither end holds some 30 MiB.
	crowd       = 16
	crowdBuffer = 16 << 10
	// sendBuffer is what a connection that is none of a crowd begins with.
	sendBuffer = 256 << 10
	// memoryLimit is from how many bytes on memory is collected more often.
	memoryLimit = 192 << 20
	// tcpTimeWait is how long an ended connection is remembered. Nothing on the way to a guest keeps segments for longer,
	// and the usual minute would let a guest pile them up.
	tcpTimeWait = 2 * time.Second
	// tcpSynRetries is how often the answer to a guest's SYN is repeated: half a minute.
	tcpSynRetries = 4

	dialTimeout    = 10 * time.Second
	udpIdleTimeout = time.Minute
	maxFlows       = 256 // TCP, and again UDP, per guest; of either per forward
	// otherFiles is how many files the gateway opens beside those of flows: the pair, the ports of forwards, questions to name servers.
	otherFiles = 96
	// returnTime is how long a client that has gone may take to come back to its guest's TCP connections.
	returnTime = 4 * time.Second
)

// engine is the gateway's TCP/IP stack with its flows.
//
//	deliver (gateway's goroutine) → stack → tcpPacket, udpPacket: new flows → a goroutine each: dial, then relay
type engine struct {
	gw    *gateway
	flows *flowTable

	stack  *stack.Stack
	link   *link
	tcpFwd *tcp.Forwarder

	src uint64 // where the packet in deliver came from; touched by the goroutine in deliver only
}

// newEngine makes a stack whose packets go to g's outlet.
func newEngine(g *gateway) (*engine, error) {
	e := &engine{gw: g, flows: newFlowTable()}
	e.link = newLink(&g.plan, g.out)
	e.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	if err := e.configure(); err != nil {
		return nil, err
	}
	// The limit that counts is the flow table's: the forwarder's own one is shared by all guests.
	e.tcpFwd = tcp.NewForwarder(e.stack, tcpBuffer, 1<<20, e.serveTCP)
	e.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, e.tcpPacket)
	e.stack.SetTransportProtocolHandler(udp.ProtocolNumber, e.udpPacket)
	return e, nil
}

// configure gives the stack its interface, addresses, route and options.
func (e *engine) configure() error {
	prefix := func(a netip.Addr) tcpip.AddressWithPrefix {
		return tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(a.As4()), PrefixLen: e.gw.plan.Subnet.Bits()}
	}
	errs := []tcpip.Error{
		e.stack.CreateNIC(nicID, e.link),
		// Flows to the whole world end here, and are answered with the addresses they were sent to.
		e.stack.SetPromiscuousMode(nicID, true), e.stack.SetSpoofing(nicID, true),
	}
	for _, a := range []netip.Addr{e.gw.plan.Gateway, e.gw.plan.Alias} {
		if a.IsValid() {
			pa := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: prefix(a)}
			errs = append(errs, e.stack.AddProtocolAddress(nicID, pa, stack.AddressProperties{}))
		}
	}
	e.stack.SetRouteTable([]tcpip.Route{{Destination: prefix(e.gw.plan.Subnet.Addr()).Subnet(), NIC: nicID}})
	sack, timeWait, retries := tcpip.TCPSACKEnabled(true), tcpip.TCPTimeWaitTimeoutOption(tcpTimeWait), tcpip.TCPSynRetriesOption(tcpSynRetries)
	for _, o := range []tcpip.SettableTransportProtocolOption{
		&sack, &timeWait, &retries,
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: tcpBuffer, Max: tcpBuffer},
		&tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: sendBuffer, Max: tcpBuffer},
	} {
		errs = append(errs, e.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o))
	}
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("set up the gateway's TCP/IP stack: %s", err)
		}
	}
	return nil
}

// deliver passes a frame that inspect let through to the stack. One goroutine at a time calls it, or deliverPacket.
func (e *engine) deliver(src uint64, f []byte) {
	e.src = src
	e.recycle(f)
	e.deliverPacket(src, header.Ethernet(f).Type(), newPacket(f[frame.MinLen:]))
}

// deliverPacket passes a packet to the stack that opens no connection, and takes it over.
func (e *engine) deliverPacket(src uint64, proto tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	e.src = src
	e.link.InjectInbound(proto, pkt)
	pkt.DecRef()
}

// newPacket copies a packet.
func newPacket(p []byte) *stack.PacketBuffer {
	return stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(p)})
}

// dial opens the host's end of a flow to the outside or to the host's loopback.
func (e *engine) dial(f *flow, network, address string) (*hostConn, error) {
	ctx, cancel := context.WithTimeout(f.ctx, e.gw.tune.dialTimeout)
	defer cancel()
	c, err := e.gw.tune.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newHostConn(c, &e.gw.awake), nil
}

// dialGuest makes a connection to a guest in the gateway's name, or a port of the gateway that only that guest can reach. It returns
// nil if the guest does not answer.
func (e *engine) dialGuest(f *flow, to netip.AddrPort) *guestConn {
	wq := new(waiter.Queue)
	ep, err := e.stack.NewEndpoint(f.key.proto, header.IPv4ProtocolNumber, wq)
	if err != nil {
		return nil
	}
	guest := newGuest(f, wq, ep)
	err = ep.Bind(fullAddress(netip.AddrPortFrom(e.gw.plan.Gateway, 0)))
	if err == nil {
		err = ep.Connect(fullAddress(to))
	}
	if _, ok := err.(*tcpip.ErrConnectStarted); ok {
		select {
		case <-guest.writable:
			err = ep.LastError()
		case <-time.After(e.gw.tune.dialTimeout):
			err = &tcpip.ErrTimeout{}
		}
	}
	if err != nil {
		guest.abort()
		guest.close()
		return nil
	}
	return guest
}

func fullAddress(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nicID, Addr: tcpip.AddrFrom4(a.Addr().As4()), Port: a.Port()}
}

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
	for _, pkt := range pkts.AsSlice() {
		l.write(pkt)
	}
	return pkts.Len(), nil
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
