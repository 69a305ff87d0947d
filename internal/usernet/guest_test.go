// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containers/gvisor-tap-vsock/pkg/tap"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

// rawGuest is a guest that sends frames as the test made them and keeps what it gets.
type rawGuest struct {
	t    testing.TB
	net  *Network
	port vnet.Port
	mac  net.HardwareAddr
	got  chan []byte
}

func newRawGuest(t testing.TB, n *Network, mac string) *rawGuest {
	g := &rawGuest{t: t, net: n, got: make(chan []byte, 4096)}
	g.mac, _ = net.ParseMAC(mac)
	p, err := n.Attach(context.Background(), vnet.PortOptions{Name: "guest " + mac}, g)
	require.NoError(t, err)
	g.port = p
	t.Cleanup(func() { _ = p.Close() })
	return g
}

func (g *rawGuest) MaxFrame() int { return frame.MaxStreamLen }

func (g *rawGuest) Deliver(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		select {
		case g.got <- append([]byte(nil), it.Frame()...):
		default:
		}
	}
}

func (g *rawGuest) send(f []byte) { g.port.Send(frame.NewBatch(frame.Append(nil, f), 1)) }

// expect returns the first frame that match accepts, nil if there is none within d.
func (g *rawGuest) expect(d time.Duration, match func(f []byte) bool) []byte {
	timeout := time.After(d)
	for {
		select {
		case f := <-g.got:
			if match(f) {
				return f
			}
		case <-timeout:
			return nil
		}
	}
}

func (g *rawGuest) eth(dst net.HardwareAddr, t uint16, body []byte) []byte {
	f := append(append(append([]byte{}, dst...), g.mac...), byte(t>>8), byte(t))
	return append(f, body...)
}

// ipv4 is a packet with right lengths and checksums.
func ipv4Packet(src, dst netip.Addr, proto tcpip.TransportProtocolNumber, payload []byte) []byte {
	b := make([]byte, header.IPv4MinimumSize, header.IPv4MinimumSize+len(payload))
	ip := header.IPv4(b)
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(b) + len(payload)), TTL: 64, Protocol: uint8(proto),
		SrcAddr: tcpip.AddrFrom4(src.As4()), DstAddr: tcpip.AddrFrom4(dst.As4()),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	return append(b, payload...)
}

func udpPayload(src, dst uint16, data []byte) []byte {
	b := make([]byte, header.UDPMinimumSize)
	header.UDP(b).Encode(&header.UDPFields{SrcPort: src, DstPort: dst, Length: uint16(len(b) + len(data))})
	return append(b, data...)
}

// echoRequest is an ICMP message of size bytes.
func echoRequest(id, seq uint16, size int) []byte {
	b := make([]byte, size)
	i := header.ICMPv4(b)
	i.SetType(header.ICMPv4Echo)
	i.SetIdent(id)
	i.SetSequence(seq)
	i.SetChecksum(^checksum.Checksum(b, 0))
	return b
}

// ping sends an echo request by way of the gateway and reports whether the answer came from dst.
func (g *rawGuest) ping(src, dst netip.Addr, wait time.Duration) bool {
	g.announce(src)
	g.send(g.eth(g.net.plan.mac, 0x0800, ipv4Packet(src, dst, header.ICMPv4ProtocolNumber, echoRequest(7, 1, 40))))
	return g.expect(wait, func(f []byte) bool {
		if len(f) < 14+28 || header.Ethernet(f).Type() != header.IPv4ProtocolNumber {
			return false
		}
		ip := header.IPv4(f[14:])
		return ip.TransportProtocol() == header.ICMPv4ProtocolNumber && ip.SourceAddress() == tcpip.AddrFrom4(dst.As4()) &&
			header.ICMPv4(ip.Payload()).Type() == header.ICMPv4EchoReply
	}) != nil
}

func (g *rawGuest) arp(op header.ARPOp, sender, target netip.Addr) []byte {
	b := make([]byte, header.ARPSize)
	a := header.ARP(b)
	a.SetIPv4OverEthernet()
	a.SetOp(op)
	copy(a.HardwareAddressSender(), g.mac)
	copy(a.ProtocolAddressSender(), sender.AsSlice())
	copy(a.ProtocolAddressTarget(), target.AsSlice())
	return b
}

var bcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// announce makes the gateway know the guest's address, as a guest does when it asks for the gateway.
func (g *rawGuest) announce(src netip.Addr) {
	g.send(g.eth(bcast, 0x0806, g.arp(header.ARPRequest, src, g.net.plan.gateway)))
}

// resolve asks for the MAC address of target; nil means no answer.
func (g *rawGuest) resolve(src, target netip.Addr, wait time.Duration) net.HardwareAddr {
	g.send(g.eth(bcast, 0x0806, g.arp(header.ARPRequest, src, target)))
	f := g.expect(wait, func(f []byte) bool {
		a := header.ARP(f[14:])
		return header.Ethernet(f).Type() == header.ARPProtocolNumber && a.IsValid() && a.Op() == header.ARPReply &&
			[4]byte(a.ProtocolAddressSender()) == target.As4()
	})
	if f == nil {
		return nil
	}
	return net.HardwareAddr(header.ARP(f[14:]).HardwareAddressSender())
}

// dhcp sends a message by broadcast and returns the answer, nil if there is none.
func (g *rawGuest) dhcp(m *dhcpv4.DHCPv4, wait time.Duration) *dhcpv4.DHCPv4 {
	zero := netip.AddrFrom4([4]byte{})
	g.send(g.eth(bcast, 0x0800, ipv4Packet(zero, broadcastAddr, header.UDPProtocolNumber, udpPayload(68, 67, m.ToBytes()))))
	var answer *dhcpv4.DHCPv4
	g.expect(wait, func(f []byte) bool {
		if len(f) < 14+28 || header.Ethernet(f).Type() != header.IPv4ProtocolNumber {
			return false
		}
		u := header.UDP(header.IPv4(f[14:]).Payload())
		if u.DestinationPort() != 68 {
			return false
		}
		a, err := dhcpv4.FromBytes(u.Payload())
		if err != nil || a.TransactionID != m.TransactionID {
			return false
		}
		answer = a
		return true
	})
	return answer
}

// attach plugs in a guest that waits for its answers for as long as tests do.
func attach(t testing.TB, n *Network, o fakeguest.Options) *fakeguest.Guest {
	o.Timeout = patience
	return vnettest.Attach(t, n, o)
}

// lease gets an address the usual way.
func (g *rawGuest) lease() (netip.Addr, *dhcpv4.DHCPv4) {
	discover, err := dhcpv4.NewDiscovery(g.mac)
	require.NoError(g.t, err)
	offer := g.dhcp(discover, patience)
	require.NotNil(g.t, offer, "no DHCP offer")
	request, err := dhcpv4.NewRequestFromOffer(offer)
	require.NoError(g.t, err)
	ack := g.dhcp(request, patience)
	require.NotNil(g.t, ack, "no DHCP answer")
	require.Equal(g.t, dhcpv4.MessageTypeAck, ack.MessageType())
	ip, _ := netip.AddrFromSlice(ack.YourIPAddr.To4())
	return ip, ack
}

// ipGuest is a guest with a TCP/IP stack.
type ipGuest struct {
	net   *Network
	stack *stack.Stack
	ep    *tap.LinkEndpoint
	tap   atomic.Pointer[func(f []byte) bool] // takes frames before the stack does
	port  vnet.Port
	out   *outlet
	in    chan []byte
	wg    sync.WaitGroup
}

func newIPGuest(t testing.TB, n *Network, mac string, ip netip.Addr) *ipGuest {
	g := &ipGuest{net: n, in: make(chan []byte, 4096)}
	ep, err := tap.NewLinkEndpoint(false, uint32(n.plan.mtu), mac, ip.String(), nil)
	require.NoError(t, err)
	g.out = newOutlet(n.plan.maxFrame(), func(b frame.Batch) { g.port.Send(b) }, &drops{})
	ep.Connect(g)
	g.ep = ep
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	require.Nil(t, g.stack.CreateNIC(1, ep))
	require.Nil(t, g.stack.AddProtocolAddress(1, tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: tcpip.AddrFrom4(ip.As4()), PrefixLen: n.plan.subnet.Bits()},
	}, stack.AddressProperties{}))
	subnet, err := tcpip.NewSubnet(tcpip.AddrFrom4(n.plan.subnet.Addr().As4()), tcpip.MaskFrom(string(mask4(n.plan.subnet.Bits()))))
	require.NoError(t, err)
	g.stack.SetRouteTable([]tcpip.Route{
		{Destination: subnet, NIC: 1},
		{Destination: header.IPv4EmptySubnet, Gateway: tcpip.AddrFrom4(n.plan.gateway.As4()), NIC: 1},
	})
	sack, moderate := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(true)
	g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack)
	g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &moderate)
	p, err := n.Attach(context.Background(), vnet.PortOptions{Name: "guest " + mac}, g)
	require.NoError(t, err)
	g.port = p
	g.wg.Go(g.out.run)
	g.wg.Go(g.run)
	t.Cleanup(g.close)
	return g
}

func (g *ipGuest) close() {
	_ = g.port.Close()
	close(g.in)
	g.out.close()
	g.wg.Wait()
	g.stack.Destroy()
}

// DeliverNetworkPacket takes what the guest sends.
func (g *ipGuest) DeliverNetworkPacket(_ tcpip.NetworkProtocolNumber, pkt *stack.PacketBuffer) {
	g.out.putPacket(pkt)
}

func (g *ipGuest) MaxFrame() int { return frame.MaxStreamLen }

func (g *ipGuest) Deliver(b frame.Batch) {
	for it := b.Iter(); it.Next(); {
		if take := g.tap.Load(); take != nil && (*take)(it.Frame()) {
			continue
		}
		select {
		case g.in <- append([]byte(nil), it.Frame()...):
		default:
		}
	}
}

func (g *ipGuest) run() {
	for f := range g.in {
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(f[14:])})
		g.ep.DeliverNetworkPacket(header.Ethernet(f).Type(), pkt)
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
