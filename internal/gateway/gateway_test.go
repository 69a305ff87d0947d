// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestOnlyGateway: the gateway answers for itself and the alias, and nothing else goes in or comes out.
func TestOnlyGateway(t *testing.T) {
	n := start(t, Config{}, tuning{})
	g := newRawGuest(t, n, mac1)
	gwMAC := n.plan.MAC
	p := fakeguest.UDPPacket
	from, to := netip.AddrPortFrom(guestIP, 4000), netip.AddrPortFrom(aliasIP, 9)
	ip := func(src, dst netip.Addr, body []byte) []byte {
		return fakeguest.IPv4Packet(src, dst, fakeguest.ProtoICMP, body)
	}
	unreachable := make([]byte, 40)
	unreachable[0] = byte(header.ICMPv4DstUnreachable)
	tests := []struct {
		name string
		f    []byte
	}{
		{"runt", make([]byte, 14)},
		{"IPv6", g.eth(gwMAC, 0x86dd, make([]byte, 60))},
		{"IP longer than the frame", g.eth(gwMAC, 0x0800, ip(guestIP, gatewayIP, echoRequest())[:30])},
		{"IP header too long", g.eth(gwMAC, 0x0800, append([]byte{0x4f}, ip(guestIP, gatewayIP, nil)[1:]...))},
		{"echo from the gateway's address", g.eth(gwMAC, 0x0800, ip(gatewayIP, gatewayIP, echoRequest()))},
		{"echo from the alias", g.eth(gwMAC, 0x0800, ip(aliasIP, gatewayIP, echoRequest()))},
		{"echo from outside", g.eth(gwMAC, 0x0800, ip(outside, gatewayIP, echoRequest()))},
		{"echo from the broadcast address", g.eth(gwMAC, 0x0800, ip(n.plan.broadcast, gatewayIP, echoRequest()))},
		{"broadcast echo", g.eth(bcast, 0x0800, ip(guestIP, gatewayIP, echoRequest()))},
		{"from the gateway's MAC", fakeguest.EthernetFrame(gwMAC, gwMAC, 0x0800, ip(guestIP, gatewayIP, echoRequest()))},
		{"from a multicast MAC", fakeguest.EthernetFrame(gwMAC, net.HardwareAddr{3, 0, 0, 0, 0, 1}, 0x0800, ip(guestIP, gatewayIP, echoRequest()))},
		{"unreachable", g.eth(gwMAC, 0x0800, ip(guestIP, gatewayIP, unreachable))},
		{"empty ICMP", g.eth(gwMAC, 0x0800, ip(guestIP, gatewayIP, nil))},
		{"IGMP", g.eth(gwMAC, 0x0800, fakeguest.IPv4Packet(guestIP, gatewayIP, 2, make([]byte, 8)))},
		{"multicast DNS", g.eth(gwMAC, 0x0800, p(from, netip.MustParseAddrPort("224.0.0.251:5353"), nil))},
		{"UDP to the subnet's broadcast", g.eth(gwMAC, 0x0800, p(from, netip.AddrPortFrom(n.plan.broadcast, 137), nil))},
		{"UDP length beyond the packet", g.eth(gwMAC, 0x0800, fakeguest.IPv4Packet(guestIP, gatewayIP, fakeguest.ProtoUDP, []byte{1, 1, 0, 53, 0xff, 0xff, 0, 0}))},
		{"UDP length of 0", g.eth(gwMAC, 0x0800, fakeguest.IPv4Packet(guestIP, gatewayIP, fakeguest.ProtoUDP, make([]byte, 8)))},
		{"UDP broadcast frame to the alias", g.eth(bcast, 0x0800, p(from, to, nil))},
		{"DHCP from another port", g.eth(bcast, 0x0800, p(netip.MustParseAddrPort("0.0.0.0:1068"), netip.MustParseAddrPort("255.255.255.255:67"), make([]byte, 300)))},
		{"ARP for another", g.eth(bcast, 0x0806, g.arp(fakeguest.ARPRequest, guestIP, netip.MustParseAddr("192.168.105.9")))},
		{"ARP as the gateway", g.eth(bcast, 0x0806, g.arp(fakeguest.ARPRequest, gatewayIP, gatewayIP))},
		{"ARP from outside", g.eth(bcast, 0x0806, g.arp(fakeguest.ARPRequest, outside, gatewayIP))},
		{"ARP cut", g.eth(bcast, 0x0806, g.arp(fakeguest.ARPRequest, guestIP, gatewayIP)[:20])},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := n.gw.drops.malformed.Load() + n.gw.drops.unwanted.Load()
			g.send(tt.f)
			if !bytes.Equal(tt.f[:6], make([]byte, 6)) { // the bridge keeps frames to others away
				require.Eventually(t, func() bool {
					return n.gw.drops.malformed.Load()+n.gw.drops.unwanted.Load() == before+1
				}, patience, 100*time.Microsecond)
			}
			_, err := g.got.Next(0)
			assert.ErrorIs(t, err, fakeguest.ErrTimeout)
		})
	}
	assert.Equal(t, gwMAC, g.resolve(netip.IPv4Unspecified(), gatewayIP, patience), "a probe for a conflict is answered")
	assert.True(t, g.ping(guestIP, gatewayIP, patience), "it still works")
	tcp, udp := n.gw.engine.flows.counts()
	assert.Zero(t, tcp+udp)
}

// TestGatewayAsks: wherever the answer is from, it is the gateway that asks for a guest's MAC address, and it takes the answer.
func TestGatewayAsks(t *testing.T) {
	var dialing atomic.Int32
	n := start(t, Config{}, tuning{dialTimeout: time.Millisecond, dial: hangingDial(&dialing)})
	g := newRawGuest(t, n, mac1)
	for i, to := range []netip.Addr{outside, aliasIP, gatewayIP} {
		src := netip.AddrFrom4([4]byte{192, 168, 105, byte(20 + i)}) // not known yet
		g.toGateway(synPacket(src, 1000, netip.AddrPortFrom(to, 1)))
		// It may have asked twice for the one before.
		p := g.expect(patience, func(p *fakeguest.Packet) bool { return p.Type == fakeguest.TypeARP && p.DstIP == src })
		require.NotNil(t, p, to)
		assert.Equal(t, gatewayIP, p.SrcIP, to)
		g.send(g.eth(n.plan.MAC, 0x0806, g.arp(fakeguest.ARPReply, src, gatewayIP)))
		p = g.expect(patience, func(p *fakeguest.Packet) bool { return p.Type == fakeguest.TypeIPv4 })
		require.NotNil(t, p, to)
		assert.Equal(t, to, p.SrcIP)
	}
}

// TestNoWayOut: in host mode, and without NAT, only the gateway, our own names and the alias work. Nothing is dialled for the
// rest, and the guest learns of it.
func TestNoWayOut(t *testing.T) {
	for _, tt := range []struct {
		name  string
		o     Config
		rcode int // of a name that is not ours
	}{
		{"host mode", Config{Mode: network.ModeHost}, dns.RcodeRefused},
		{"no NAT", Config{DisableNAT44: true, ResolvConf: "/nonexistent/resolv.conf"}, dns.RcodeServerFailure}, // it would ask
	} {
		t.Run(tt.name, func(t *testing.T) {
			var dialed atomic.Int32
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed.Add(1)
				assert.True(t, strings.HasPrefix(address, "127.0.0.1:"), address)
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			n := start(t, tt.o, tuning{dial: dial})
			raw := newRawGuest(t, n, mac1)
			ip, ack := raw.lease()
			assert.Empty(t, ack.Router())
			assert.Len(t, ack.DNS(), 1)
			assert.True(t, raw.ping(ip, gatewayIP, patience))
			for _, to := range []string{"203.0.113.9:53", "169.254.169.254:80", "192.168.105.1:123"} {
				assert.True(t, raw.unreachable(ip, netip.MustParseAddrPort(to)), to)
			}
			g := newIPGuest(t, n, mac2, guestIP)
			port, _ := udpEcho(t)
			fetch(t, g, netip.AddrPortFrom(aliasIP, echoServer(t)))
			g.echoed(t, port, []byte("x"))
			_, err := g.dialTCP(t.Context(), netip.AddrPortFrom(outside, 80))
			assert.ErrorContains(t, err, "refused")
			assert.EqualValues(t, 2, dialed.Load())
			assert.Equal(t, tt.rcode, resolve(t, g, "example.com.", false).Rcode)
			assert.Equal(t, dns.RcodeSuccess, resolve(t, g, "host.internal.", false).Rcode)
		})
	}
}

// resolve asks the gateway's DNS server over UDP or TCP.
func resolve(t *testing.T, g *ipGuest, name string, tcp bool) *dns.Msg {
	t.Helper()
	to := netip.AddrPortFrom(g.net.plan.Gateway, 53)
	var c net.Conn
	var err error
	if tcp {
		c, err = g.dialTCP(context.Background(), to)
	} else {
		c, err = g.dialUDP(to)
		c = datagrams{c}
	}
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	conn := &dns.Conn{Conn: c}
	require.NoError(t, conn.WriteMsg(new(dns.Msg).SetQuestion(name, dns.TypeA)))
	m, err := conn.ReadMsg()
	require.NoError(t, err)
	return m
}

// TestNoDHCP: there is no answer.
func TestNoDHCP(t *testing.T) {
	n := start(t, Config{DisableDHCP: true}, tuning{})
	_, err := vnettest.Attach(t, n, fakeguest.Options{Timeout: 50 * time.Millisecond}).Configure()
	assert.ErrorIs(t, err, fakeguest.ErrTimeout)
	g := vnettest.Attach(t, n, fakeguest.Options{})
	g.SetAddr(netip.PrefixFrom(guestIP, 24), gatewayIP)
	_, err = g.Ping(gatewayIP, 1)
	assert.NoError(t, err)
	assert.Nil(t, n.gw.dhcp)
}

// FuzzFrames feeds any frames to the gateway of a running network: there is no panic, the gateway keeps answering,
// and nothing that a guest could take for another guest's answer comes out.
func FuzzFrames(f *testing.F) {
	n := start(f, Config{}, tuning{dial: func(context.Context, string, string) (net.Conn, error) { return nil, fmt.Errorf("no") }})
	g := newRawGuest(f, n, mac1)
	gw := n.plan.MAC
	f.Add(g.eth(bcast, 0x0806, g.arp(fakeguest.ARPRequest, guestIP, gatewayIP)))
	f.Add(g.eth(gw, 0x0806, g.arp(fakeguest.ARPReply, guestIP, gatewayIP)))
	f.Add(g.eth(gw, 0x0800, fakeguest.IPv4Packet(guestIP, gatewayIP, fakeguest.ProtoICMP, echoRequest())))
	f.Add(g.eth(gw, 0x0800, synPacket(guestIP, 1000, netip.AddrPortFrom(aliasIP, 80))))
	f.Add(g.eth(gw, 0x0800, synPacket(guestIP, 1000, netip.AddrPortFrom(gatewayIP, 53))))
	f.Add(g.eth(gw, 0x0800, fakeguest.UDPPacket(netip.AddrPortFrom(guestIP, 1), netip.AddrPortFrom(aliasIP, 2), []byte("x"))))
	f.Add(g.eth(gw, 0x0800, fakeguest.UDPPacket(netip.AddrPortFrom(guestIP, 1), netip.AddrPortFrom(gatewayIP, 53), make([]byte, 30))))
	f.Add(g.eth(bcast, 0x0800, fakeguest.UDPPacket(netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67"), make([]byte, 300))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < frame.MinLen || len(b) > frame.MaxLen {
			return // the bridge's callers keep these away
		}
		g.send(b)
		copy(b, gw) // and once more so that it surely arrives
		g.send(b)
		if !g.ping(guestIP, gatewayIP, patience) {
			t.Fatalf("the gateway does not answer any more after %x", b)
		}
	})
}

// datagrams tells the DNS library that a connection has no lengths before its messages.
type datagrams struct{ net.Conn }

func (d datagrams) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := d.Read(b)
	return n, nil, err
}

func (d datagrams) WriteTo(b []byte, _ net.Addr) (int, error) { return d.Write(b) }
