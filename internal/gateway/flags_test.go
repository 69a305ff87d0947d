// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

func reserve(mac, ip string) network.Reservation {
	hw, _ := net.ParseMAC(mac)
	return network.Reservation{MAC: hw, Addr: netip.MustParseAddr(ip)}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Config
		want string // in the error; empty = none
	}{
		{"nothing", Config{}, ""},
		{"reservation in the pool", Config{Reservations: []network.Reservation{reserve(mac1, "192.168.105.9")}}, ""},
		{"reservation beside the pool", Config{DHCPEnd: addrOf("10.0.0.9"), Gateway: addrOf("10.0.0.1"), Reservations: []network.Reservation{reserve(mac1, "10.0.0.99")}}, ""},
		{"reservation outside", Config{Reservations: []network.Reservation{reserve(mac1, "192.168.106.9")}}, "192.168.106.9 is not in the network 192.168.105.0/24"},
		{"reservation of the gateway", Config{Reservations: []network.Reservation{reserve(mac1, "192.168.105.1")}}, "not an address of a guest"},
		{"reservation of the alias", Config{Reservations: []network.Reservation{reserve(mac1, "192.168.105.254")}}, "192.168.105.254 is the host's own address"},
		{"reservation of broadcast", Config{Reservations: []network.Reservation{reserve(mac1, "192.168.105.255")}}, "not an address of a guest"},
		{"forward", Config{Forwards: []network.Forward{{Proto: "tcp", HostPort: 1, Guest: netip.MustParseAddrPort("192.168.105.9:1")}}}, ""},
		{"forward outside", Config{Forwards: []network.Forward{{Proto: "tcp", HostPort: 1, Guest: netip.MustParseAddrPort("8.8.8.8:1")}}}, "--vmnet-forward=tcp:1=8.8.8.8:1: 8.8.8.8 is not in the network"},
		{"forward to the alias", Config{Forwards: []network.Forward{{Proto: "udp", HostPort: 1, Guest: netip.MustParseAddrPort("192.168.105.254:1")}}}, "is the host's own address"},
		{"too many forwards", Config{Forwards: make([]network.Forward, maxForwards+1)}, "1025 forwards are more than 1024"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Mode == "" {
				c.o.Mode = network.ModeShared
			}
			_, err := c.o.Plan()
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}

// unreachable sends a datagram and tells whether the answer is that it is not taken.
func (g *rawGuest) unreachable(src netip.Addr, to netip.AddrPort) bool {
	g.announce(src)
	question, _ := new(dns.Msg).SetQuestion("host.internal.", dns.TypeA).Pack()
	g.toGateway(fakeguest.UDPPacket(netip.AddrPortFrom(src, 4000), to, question))
	return g.expect(patience, func(p *fakeguest.Packet) bool {
		return p.Proto == fakeguest.ProtoICMP && p.ICMPType == fakeguest.Unreachable
	}) != nil
}

func TestNoDNS(t *testing.T) {
	n := start(t, Config{DisableDNSProxy: true}, tuning{})
	raw := newRawGuest(t, n, mac1)
	ip, ack := raw.lease()
	assert.Empty(t, ack.DNS())
	assert.Len(t, ack.Router(), 1)
	assert.True(t, raw.unreachable(ip, netip.AddrPortFrom(gatewayIP, 53)))
	_, err := newIPGuest(t, n, mac2, guestIP).dialTCP(t.Context(), netip.AddrPortFrom(gatewayIP, 53))
	assert.ErrorContains(t, err, "refused")
}

// TestMTU: what is told to guests, what the gateway sends, and what it takes. Guests that did not hear of a small one
// send full frames.
func TestMTU(t *testing.T) {
	for _, mtu := range []int{1280, 9000, 16384} {
		n := start(t, Config{MTU: mtu}, tuning{})
		raw := newRawGuest(t, n, mac1)
		ip, ack := raw.lease()
		assert.Equal(t, []byte{byte(mtu >> 8), byte(mtu)}, ack.Options.Get(dhcpv4.OptionInterfaceMTU))
		assert.Equal(t, mtu, n.Info().MTU)
		assert.Equal(t, mtu, raw.Port().Info().MTU)
		raw.announce(ip)
		raw.toGateway(fakeguest.IPv4Packet(ip, gatewayIP, fakeguest.ProtoICMP, fakeguest.ICMPMessage(fakeguest.EchoRequest, 7, 1, make([]byte, 1472))))
		assert.NotNil(t, raw.expect(patience, func(p *fakeguest.Packet) bool { return len(p.Payload) > 1000 }), "a full frame is answered")
		raw.Close()

		g := newIPGuest(t, n, mac1, ip)
		longest := new(atomic.Int64)
		g.SetTap(func(f []byte) bool {
			longest.Store(max(longest.Load(), int64(len(f))))
			return false
		})
		port, _ := udpEcho(t)
		g.echoed(t, port, make([]byte, 40000))
		assert.LessOrEqual(t, longest.Load(), int64(frame.MinLen+mtu))
		assert.Greater(t, longest.Load(), int64(frame.MinLen+mtu-8), "fragments are of eight bytes")
	}
}

// TestNoHostLoopback: without the alias its address is one like any other, nothing leads to the host's loopback, and the name is
// known without an address; no other server is asked for it.
func TestNoHostLoopback(t *testing.T) {
	for _, mode := range []network.Mode{network.ModeShared, network.ModeHost} {
		t.Run(string(mode), func(t *testing.T) {
			o := Config{Mode: mode, DisableHostLoopback: true}
			n := start(t, o, tuning{dial: func(context.Context, string, string) (net.Conn, error) {
				t.Error("dialled")
				return nil, net.ErrClosed
			}})
			assert.False(t, n.plan.Alias.IsValid())
			raw := newRawGuest(t, n, mac1)
			ip, _ := raw.lease()
			// Nor does the gateway take what is sent to it all the same, by its MAC address.
			raw.toGateway(fakeguest.UDPPacket(netip.AddrPortFrom(ip, 1000), netip.AddrPortFrom(aliasIP, 2000), []byte("hello")))
			assert.Nil(t, raw.resolve(ip, aliasIP, 100*time.Millisecond), "ARP")
			assert.True(t, raw.ping(ip, gatewayIP, patience), "all has gone through")

			g := newIPGuest(t, n, mac2, guestIP)
			a := resolve(t, g, "host.internal.", false)
			assert.Equal(t, dns.RcodeSuccess, a.Rcode)
			assert.Empty(t, a.Answer)
			assert.Len(t, resolve(t, g, "gateway.internal.", false).Answer, 1)
			o.Reservations = []network.Reservation{reserve(mac1, aliasIP.String())}
			_, err := o.Plan()
			assert.NoError(t, err)
		})
	}
}
