// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// rawGuest is a guest that sends frames as the test made them and keeps what it gets.
type rawGuest struct {
	*fakeguest.Guest
	t   testing.TB
	net *Network
	got *fakeguest.Listener
}

func newRawGuest(t testing.TB, n *Network, mac string) *rawGuest {
	g := &rawGuest{Guest: plugIn(t, n, mac), t: t, net: n}
	g.got = g.Listen(nil)
	return g
}

// plugIn attaches a guest that does nothing by itself.
func plugIn(t testing.TB, n *Network, mac string) *fakeguest.Guest {
	hw, err := net.ParseMAC(mac)
	require.NoError(t, err)
	return vnettest.Attach(t, n, fakeguest.Options{MAC: hw, Quiet: true})
}

func (g *rawGuest) send(f []byte) { _ = g.Send(f) }

// expect returns the first frame that match accepts, nil if there is none within d.
func (g *rawGuest) expect(d time.Duration, match func(p *fakeguest.Packet) bool) *fakeguest.Packet {
	for until := time.Now().Add(d); ; {
		f, err := g.got.Next(time.Until(until))
		if err != nil {
			return nil
		}
		if p, err := fakeguest.Parse(f); err == nil && match(&p) {
			return &p
		}
	}
}

func (g *rawGuest) eth(dst net.HardwareAddr, t uint16, body []byte) []byte {
	return fakeguest.EthernetFrame(dst, g.MAC(), t, body)
}

// ping sends an echo request by way of the gateway and reports whether the answer came from dst.
func (g *rawGuest) ping(src, dst netip.Addr, wait time.Duration) bool {
	g.announce(src)
	g.toGateway(fakeguest.IPv4Packet(src, dst, fakeguest.ProtoICMP, echoRequest()))
	return g.expect(wait, func(p *fakeguest.Packet) bool {
		return p.Proto == fakeguest.ProtoICMP && p.ICMPType == fakeguest.EchoReply && p.SrcIP == dst
	}) != nil
}

// announce makes the gateway know the guest's address, as a guest does when it asks for the gateway.
func (g *rawGuest) announce(src netip.Addr) {
	g.send(g.eth(bcast, 0x0806, g.arp(fakeguest.ARPRequest, src, g.net.plan.Gateway)))
}

// resolve asks for the MAC address of target; nil means no answer.
func (g *rawGuest) resolve(src, target netip.Addr, wait time.Duration) net.HardwareAddr {
	g.send(g.eth(bcast, 0x0806, g.arp(fakeguest.ARPRequest, src, target)))
	p := g.expect(wait, func(p *fakeguest.Packet) bool { return p.ARPOp == fakeguest.ARPReply && p.SrcIP == target })
	if p == nil {
		return nil
	}
	return p.SenderMAC
}

// dhcp sends a message by broadcast and returns the answer.
func (g *rawGuest) dhcp(m *dhcpv4.DHCPv4, err error) (answer *dhcpv4.DHCPv4) {
	g.t.Helper()
	require.NoError(g.t, err)
	from, to := netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67")
	g.send(g.eth(bcast, 0x0800, fakeguest.UDPPacket(from, to, m.ToBytes())))
	require.NotNil(g.t, g.expect(patience, func(p *fakeguest.Packet) bool {
		if p.Proto != fakeguest.ProtoUDP || p.DstPort != 68 {
			return false
		}
		answer, err = dhcpv4.FromBytes(p.Data)
		return err == nil && answer.TransactionID == m.TransactionID
	}), "no DHCP answer")
	return answer
}

// lease gets an address the usual way.
func (g *rawGuest) lease() (netip.Addr, *dhcpv4.DHCPv4) {
	g.t.Helper()
	offer := g.dhcp(dhcpv4.NewDiscovery(g.MAC()))
	ack := g.dhcp(dhcpv4.NewRequestFromOffer(offer))
	require.Equal(g.t, dhcpv4.MessageTypeAck, ack.MessageType())
	ip, _ := netip.AddrFromSlice(ack.YourIPAddr.To4())
	return ip, ack
}

// ipGuest is a guest with a TCP/IP stack.
type ipGuest struct {
	*fakeguest.Guest
	net   *Network
	stack *stack.Stack
	link  *link
	port  network.Port // that the stack sends to
	out   *outlet
}

func newIPGuest(t testing.TB, n *Network, mac string, ip netip.Addr) *ipGuest {
	g := &ipGuest{Guest: plugIn(t, n, mac), net: n}
	g.port = g.Port()
	g.out = newOutlet(n.plan.MaxFrame(), func(b []byte, _ bool) (int, error) {
		g.port.Send(frame.NewBatch(b, countFrames(b)))
		return len(b), nil
	}, &drops{})
	g.link = newLink(&Plan{Gateway: ip, MAC: g.MAC(), MTU: n.plan.MTU}, g.out)
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	require.Nil(t, g.stack.CreateNIC(1, g.link))
	own := tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(ip.As4()), PrefixLen: n.plan.Subnet.Bits()}
	address := tcpip.ProtocolAddress{Protocol: ipv4.ProtocolNumber, AddressWithPrefix: own}
	require.Nil(t, g.stack.AddProtocolAddress(1, address, stack.AddressProperties{}))
	g.stack.SetRouteTable([]tcpip.Route{
		{Destination: own.Subnet(), NIC: 1},
		{Destination: header.IPv4EmptySubnet, Gateway: tcpip.AddrFrom4(n.plan.Gateway.As4()), NIC: 1},
	})
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)
	g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &moderate)
	go g.out.run()
	in := g.Listen(nil)
	var reader sync.WaitGroup
	reader.Go(func() { g.run(in) })
	t.Cleanup(func() {
		g.Close()
		reader.Wait()
		g.stack.Destroy()
	})
	return g
}

// countFrames is how many frames are in b.
func countFrames(b []byte) (n int) {
	for it := frame.NewBatch(b, 0).Iter(); it.Next(); {
		n++
	}
	return n
}

// run has the stack handle what comes.
func (g *ipGuest) run(in *fakeguest.Listener) {
	for f, err := in.Next(time.Hour); err == nil; f, err = in.Next(time.Hour) {
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(f[frame.MinLen:])})
		g.link.InjectInbound(header.Ethernet(f).Type(), pkt)
		pkt.DecRef()
	}
}

func full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4(a.Addr().As4()), Port: a.Port()}
}

func (g *ipGuest) dialTCP(ctx context.Context, to netip.AddrPort) (*gonet.TCPConn, error) {
	return gonet.DialContextTCP(ctx, g.stack, full(to), ipv4.ProtocolNumber)
}

func (g *ipGuest) dialUDP(to netip.AddrPort) (*gonet.UDPConn, error) {
	raddr := full(to)
	return gonet.DialUDP(g.stack, nil, &raddr, ipv4.ProtocolNumber)
}

// toGateway sends an IPv4 packet.
func (g *rawGuest) toGateway(packet []byte) { g.send(g.eth(g.net.plan.MAC, 0x0800, packet)) }

var bcast = fakeguest.Broadcast

// echoRequest is a ping's ICMP message.
func echoRequest() []byte {
	return fakeguest.ICMPMessage(fakeguest.EchoRequest, 7, 1, make([]byte, 32))
}

// synPacket is an IPv4 packet with a TCP SYN.
func synPacket(src netip.Addr, port uint16, to netip.AddrPort) []byte {
	return fakeguest.TCPPacket(netip.AddrPortFrom(src, port), to, fakeguest.TCPSyn, 1, 0)
}

func (g *rawGuest) arp(op uint16, sender, target netip.Addr) []byte {
	return fakeguest.ARPPacket(op, g.MAC(), sender, make([]byte, 6), target)
}
