// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

func reserve(mac, ip string) vnet.Reservation {
	hw, _ := net.ParseMAC(mac)
	return vnet.Reservation{MAC: hw, Addr: netip.MustParseAddr(ip)}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string // in the error; empty = none
	}{
		{"nothing", Options{}, ""},
		{"reservation in the pool", Options{Reservations: []vnet.Reservation{reserve(mac1, "192.168.105.9")}}, ""},
		{"reservation beside the pool", Options{DHCPEnd: addrOf("10.0.0.9"), Gateway: addrOf("10.0.0.1"), Reservations: []vnet.Reservation{reserve(mac1, "10.0.0.99")}}, ""},
		{"reservation outside", Options{Reservations: []vnet.Reservation{reserve(mac1, "192.168.106.9")}}, "192.168.106.9 is not in the network 192.168.105.0/24"},
		{"reservation of the gateway", Options{Reservations: []vnet.Reservation{reserve(mac1, "192.168.105.1")}}, "no address of a guest"},
		{"reservation of the alias", Options{Reservations: []vnet.Reservation{reserve(mac1, "192.168.105.254")}}, "192.168.105.254 is the host's own address"},
		{"reservation of broadcast", Options{Reservations: []vnet.Reservation{reserve(mac1, "192.168.105.255")}}, "no address of a guest"},
		{"reservation without DHCP", Options{DisableDHCP: true, Reservations: []vnet.Reservation{reserve(mac1, "192.168.105.9")}}, "there is no DHCP server"},
		{"reservation without MAC", Options{Reservations: []vnet.Reservation{{Addr: addrOf("192.168.105.9")}}}, "is no MAC address"},
		{"forward", Options{Forwards: []vnet.Forward{{Proto: "tcp", HostPort: 1, Guest: netip.MustParseAddrPort("192.168.105.9:1")}}}, ""},
		{"forward outside", Options{Forwards: []vnet.Forward{{Proto: "tcp", HostPort: 1, Guest: netip.MustParseAddrPort("8.8.8.8:1")}}}, "forward tcp port 1 to 8.8.8.8:1: 8.8.8.8 is not in the network"},
		{"forward to the alias", Options{Forwards: []vnet.Forward{{Proto: "udp", HostPort: 1, Guest: netip.MustParseAddrPort("192.168.105.254:1")}}}, "is the host's own address"},
		{"too many forwards", Options{Forwards: make([]vnet.Forward, maxForwards+1)}, "1025 forwards are more than 1024"},
		{"MTU", Options{MTU: 1279}, "MTU 1279 is not from 1280 to 16384"},
		{"MTU too large", Options{MTU: 16385}, "MTU 16385"},
		{"bridged", Options{Mode: vnet.ModeBridged}, ErrBridged.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Mode == "" {
				c.o.Mode = vnet.ModeShared
			}
			err := Check(c.o)
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
		})
	}
}

func TestReservedAddress(t *testing.T) {
	n := start(t, Options{Reservations: []vnet.Reservation{reserve(mac2, "192.168.105.2"), reserve("52:54:00:12:34:03", "192.168.105.200")}}, tuning{})
	first := newRawGuest(t, n, mac1)
	ip, _ := first.lease()
	assert.Equal(t, "192.168.105.3", ip.String(), "the first address is somebody else's")
	owner := newRawGuest(t, n, mac2)
	ip, _ = owner.lease()
	assert.Equal(t, "192.168.105.2", ip.String())
	assert.True(t, owner.ping(ip, gatewayIP, patience))
	ip, _ = newRawGuest(t, n, "52:54:00:12:34:03").lease()
	assert.Equal(t, "192.168.105.200", ip.String())
}

// unreachable sends a datagram and tells whether the answer is that nobody takes it.
func (g *rawGuest) unreachable(src netip.Addr, to netip.AddrPort) bool {
	g.announce(src)
	question, _ := new(dns.Msg).SetQuestion("host.internal.", dns.TypeA).Pack()
	g.send(g.eth(g.net.plan.mac, 0x0800, ipv4Packet(src, to.Addr(), header.UDPProtocolNumber, udpPayload(4000, to.Port(), question))))
	return g.expect(patience, func(f []byte) bool {
		if header.Ethernet(f).Type() != header.IPv4ProtocolNumber {
			return false
		}
		ip := header.IPv4(f[frame.MinLen:])
		return ip.TransportProtocol() == header.ICMPv4ProtocolNumber &&
			header.ICMPv4(ip.Payload()).Type() == header.ICMPv4DstUnreachable
	}) != nil
}

// TestNoNAT44: the gateway, its name server and the host's loopback are there, nothing else.
func TestNoNAT44(t *testing.T) {
	var outward atomic.Int32
	n := start(t, Options{DisableNAT44: true, ResolvConf: "/nonexistent/resolv.conf", Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.HasPrefix(address, "127.0.0.1:") {
			outward.Add(1)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}, tuning{})
	raw := newRawGuest(t, n, mac1)
	ip, ack := raw.lease()
	assert.Empty(t, ack.Router(), "no way out")
	assert.Len(t, ack.DNS(), 1)
	assert.True(t, raw.ping(ip, gatewayIP, patience))
	require.NoError(t, raw.port.Close())

	g := newIPGuest(t, n, mac1, ip)
	port, _ := udpEcho(t)
	fetch(t, g, netip.AddrPortFrom(aliasIP, echoServer(t)))
	c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	assert.NotNil(t, exchangeUDP(t, c, []byte("x")))
	_ = c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = g.dialTCP(ctx, netip.AddrPortFrom(outside, 80))
	assert.ErrorContains(t, err, "refused")
	assert.True(t, newRawGuest(t, n, mac2).unreachable(netip.MustParseAddr("192.168.105.50"), netip.AddrPortFrom(outside, 53)))
	assert.Zero(t, outward.Load())
	assert.Equal(t, dns.RcodeServerFailure, resolve(t, g, "example.com.", false).Rcode, "it would ask the host's resolvers")
}

func TestNoDNS(t *testing.T) {
	n := start(t, Options{DisableDNSProxy: true}, tuning{})
	raw := newRawGuest(t, n, mac1)
	ip, ack := raw.lease()
	assert.Empty(t, ack.DNS())
	assert.False(t, ack.Options.Has(dhcpv4.OptionDomainNameServer))
	assert.Len(t, ack.Router(), 1)
	require.NoError(t, raw.port.Close())
	g := newIPGuest(t, n, mac1, ip)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := g.dialTCP(ctx, netip.AddrPortFrom(gatewayIP, 53))
	assert.ErrorContains(t, err, "refused")
	assert.True(t, newRawGuest(t, n, mac2).unreachable(netip.MustParseAddr("192.168.105.50"), netip.AddrPortFrom(gatewayIP, 53)))
}

// TestIsolate: guests have the gateway and nobody else, whatever they send.
func TestIsolate(t *testing.T) {
	n := start(t, Options{Isolate: true}, tuning{})
	a, b := newRawGuest(t, n, mac1), newRawGuest(t, n, mac2)
	ipA, _ := a.lease()
	ipB, _ := b.lease()
	assert.True(t, a.ping(ipA, gatewayIP, patience))
	assert.True(t, b.ping(ipB, gatewayIP, patience))
	mark := []byte("from guest to guest")
	for _, dst := range []net.HardwareAddr{b.mac, bcast, {0x33, 0x33, 0, 0, 0, 1}, {2, 9, 9, 9, 9, 9}} {
		a.send(a.eth(dst, 0x88b5, mark))
	}
	a.send(a.eth(bcast, 0x0806, a.arp(0x0001, ipA, ipB)))
	fromA := func(f []byte) bool { return [6]byte(f[6:12]) == [6]byte(a.mac) }
	require.True(t, a.ping(ipA, gatewayIP, patience), "all of it has gone through")
	assert.Nil(t, b.expect(100*time.Millisecond, fromA))
	// The gateway does not carry it over either.
	a.send(a.eth(n.plan.mac, 0x0800, ipv4Packet(ipA, ipB, 17, udpPayload(1000, 2000, mark))))
	assert.Nil(t, b.expect(100*time.Millisecond, func(f []byte) bool { return len(f) > 20 && f[12] == 8 && strings.Contains(string(f), string(mark)) }))
	assert.Equal(t, uint64(1), a.port.Stats().Drops[vnet.DropIsolated])
	assert.True(t, b.ping(ipB, gatewayIP, patience))
}

// TestMTU: what is told to guests, what the gateway sends, and what it takes.
func TestMTU(t *testing.T) {
	for _, mtu := range []int{1280, 1500, 9000, 16384} {
		n := start(t, Options{MTU: mtu}, tuning{})
		raw := newRawGuest(t, n, mac1)
		ip, ack := raw.lease()
		assert.Equal(t, []byte{byte(mtu >> 8), byte(mtu)}, ack.Options.Get(dhcpv4.OptionInterfaceMTU))
		assert.Equal(t, mtu, n.Info().MTU)
		assert.Equal(t, mtu, raw.port.Info().MTU)
		require.NoError(t, raw.port.Close())

		g := newIPGuest(t, n, mac1, ip)
		longest := new(atomic.Int64)
		watch := func(f []byte) bool {
			longest.Store(max(longest.Load(), int64(len(f))))
			return false
		}
		g.tap.Store(&watch)
		port, _ := udpEcho(t)
		c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
		require.NoError(t, err)
		data := make([]byte, 40000)
		assert.Equal(t, data, exchangeUDP(t, c, data))
		_ = c.Close()
		assert.LessOrEqual(t, longest.Load(), int64(frame.MinLen+mtu))
		assert.Greater(t, longest.Load(), int64(frame.MinLen+mtu-8), "fragments are of eight bytes")
		fetch(t, g, netip.AddrPortFrom(aliasIP, echoServer(t)))
	}
}

// TestSmallMTUTakesFullFrames: guests that did not hear of it send them.
func TestSmallMTUTakesFullFrames(t *testing.T) {
	n := start(t, Options{MTU: 1280}, tuning{})
	g := newRawGuest(t, n, mac1)
	g.announce(guestIP)
	request := append(echoRequest(7, 1), make([]byte, 1500-20-40)...)
	request[2], request[3] = 0, 0
	sum := ^onesComplement(request)
	request[2], request[3] = byte(sum>>8), byte(sum)
	g.send(g.eth(n.plan.mac, 0x0800, ipv4Packet(guestIP, gatewayIP, 1, request)))
	assert.NotNil(t, g.expect(patience, func(f []byte) bool { return len(f) > 34 && f[12] == 8 && f[13] == 0 && f[23] == 1 }))
}

func onesComplement(b []byte) (sum uint16) {
	var s uint32
	for i := 0; i+1 < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint16(s)
}

// TestPrivate: no guest is led to the private port, under whatever name it has for the host; everything beside it is as before.
func TestPrivate(t *testing.T) {
	own := netip.MustParseAddr("127.0.0.1")
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			own, _ = netip.AddrFromSlice(n.IP.To4())
		}
	}
	const port = 9105
	for _, tt := range []struct {
		name, at string
		to       netip.Addr
		port     uint16
		ok       bool
	}{
		{"loopback, by the alias", "127.0.0.1:9105", aliasIP, port, false},
		{"loopback, another port", "127.0.0.1:9105", aliasIP, port + 1, true},
		{"loopback, somebody else", "127.0.0.1:9105", outside, port, true},
		{"another address of loopback", "127.0.0.2:9105", aliasIP, port, true},
		{"IPv6 loopback", "[::1]:9105", aliasIP, port, true},
		{"an address of the host", "203.0.113.9:9105", outside, port, false},
		{"an address of the host, by the alias", "203.0.113.9:9105", aliasIP, port, true},
		{"an address of the host, in IPv6", "[::ffff:203.0.113.9]:9105", outside, port, false},
		{"all, by the alias", "0.0.0.0:9105", aliasIP, port, false},
		{"all, by the alias, in IPv6", "[::]:9105", aliasIP, port, false},
		{"all, by the host's own", "0.0.0.0:9105", own, port, false},
		{"all, another port", "0.0.0.0:9105", aliasIP, port + 1, true},
		{"all, somebody else", "0.0.0.0:9105", outside, port, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.to.IsLoopback() {
				tt.to = aliasIP // this host has no other address
			}
			open := echoServer(t)
			dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, netip.AddrPortFrom(loopback4, open).String())
			}
			n := start(t, Options{Private: netip.MustParseAddrPort(tt.at), Dial: dial}, tuning{})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := newIPGuest(t, n, mac1, guestIP).dialTCP(ctx, netip.AddrPortFrom(tt.to, tt.port))
			if !tt.ok {
				require.ErrorContains(t, err, "refused")
				return
			}
			require.NoError(t, err)
			_ = c.Close()
		})
	}
}

// TestNoHostLoopback: without the alias its address is one like any other, nothing leads to the host's loopback, and the name is
// known without an address; nobody else is asked for it.
func TestNoHostLoopback(t *testing.T) {
	for _, mode := range []vnet.Mode{vnet.ModeShared, vnet.ModeHost} {
		t.Run(string(mode), func(t *testing.T) {
			var dialed atomic.Int32
			dial := func(context.Context, string, string) (net.Conn, error) {
				dialed.Add(1)
				return nil, net.ErrClosed
			}
			n := start(t, Options{Mode: mode, DisableHostLoopback: true, Dial: dial}, tuning{})
			assert.False(t, n.Alias().IsValid())
			raw := newRawGuest(t, n, mac1)
			ip, _ := raw.lease()
			assert.True(t, raw.ping(ip, gatewayIP, patience))
			assert.Nil(t, raw.resolve(ip, aliasIP, 100*time.Millisecond), "ARP")
			// Nor does the gateway take what is sent to it all the same, by its MAC address.
			raw.send(raw.eth(n.plan.mac, 0x0800, ipv4Packet(ip, aliasIP, 17, udpPayload(1000, 2000, []byte("hello")))))
			assert.True(t, raw.ping(ip, gatewayIP, patience), "it has gone through")
			assert.Zero(t, dialed.Load())
			require.NoError(t, raw.port.Close())

			g := newIPGuest(t, n, mac2, guestIP)
			a := resolve(t, g, "host.internal.", false)
			assert.Equal(t, dns.RcodeSuccess, a.Rcode)
			assert.Empty(t, a.Answer)
			assert.Len(t, resolve(t, g, "gateway.internal.", false).Answer, 1)
			assert.NoError(t, Check(Options{Mode: mode, DisableHostLoopback: true, Reservations: []vnet.Reservation{reserve(mac1, aliasIP.String())}}))
		})
	}
}
