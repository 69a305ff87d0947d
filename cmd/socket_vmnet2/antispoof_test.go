// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// antiSpoof turns it on; it is off by default.
const antiSpoof = "--anti-spoof"

// forgedLine is in the log once a client forges.
const forgedLine = "frames with forged addresses are dropped"

// linkLocal is the IPv6 address that follows from mac.
func linkLocal(mac net.HardwareAddr) []byte {
	return []byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
}

// icmp6 is a frame to all nodes with an ICMPv6 message, without a checksum, which is not looked at here.
func icmp6(mac net.HardwareAddr, src, message []byte) []byte {
	head := []byte{0x60, 0, 0, 0, byte(len(message) >> 8), byte(len(message)), 58, 255}
	allNodes := []byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	return fakeguest.EthernetFrame(net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, mac, 0x86dd, slices.Concat(head, src, allNodes, message))
}

// neighbour is a message of neighbour discovery about target, with a link-layer address: kind 135 solicits, 136 advertises.
func neighbour(kind byte, target []byte, mac net.HardwareAddr) []byte {
	return slices.Concat([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, target, []byte{kind - 134, 1}, mac)
}

const fromOutside = "an address from outside"

// forgery is a frame that a guest has no business sending.
type forgery struct {
	name  string
	frame []byte
}

// forgeries are what f can try against v, both of them with addresses.
func forgeries(t *testing.T, f, v *fakeguest.Guest) []forgery {
	t.Helper()
	all, own, other := fakeguest.Broadcast, f.Addr().Addr(), v.Addr().Addr()
	echo := func(src netip.Addr) []byte {
		return fakeguest.IPv4Packet(src, gatewayAddr, fakeguest.ProtoICMP, fakeguest.ICMPMessage(fakeguest.EchoRequest, 1, 1, []byte("forged")))
	}
	dhcp := func(from, to uint16, mac net.HardwareAddr, kind dhcpv4.MessageType, op dhcpv4.OpcodeType) []byte {
		m, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(own.AsSlice()))
		require.NoError(t, err)
		m.OpCode = op
		return fakeguest.UDPPacket(netip.AddrPortFrom(own, from), netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), to), m.ToBytes())
	}
	arp := func(op uint16, mac net.HardwareAddr, ip netip.Addr) []byte {
		return fakeguest.EthernetFrame(all, f.MAC(), fakeguest.TypeARP, fakeguest.ARPPacket(op, mac, ip, all, ip))
	}
	fragment := echo(other)
	fragment[6], fragment[7] = 0, 1
	eth := func(etherType uint16, payload []byte) []byte {
		return fakeguest.EthernetFrame(all, f.MAC(), etherType, payload)
	}
	none := make([]byte, 16)
	return []forgery{
		{"another's MAC", testFrame(all, v.MAC(), "forged")},
		{"another's MAC and address", fakeguest.EthernetFrame(all, v.MAC(), fakeguest.TypeIPv4, echo(other))},
		{"another's address", eth(fakeguest.TypeIPv4, echo(other))},
		{"another's address in a fragment", eth(fakeguest.TypeIPv4, fragment)},
		{"the gateway's address", eth(fakeguest.TypeIPv4, echo(gatewayAddr))},
		{fromOutside, eth(fakeguest.TypeIPv4, echo(netip.MustParseAddr("192.0.2.1")))},
		{"a second address", eth(fakeguest.TypeIPv4, echo(netip.MustParseAddr("192.168.105.200")))},
		{"IPv4 cut", eth(fakeguest.TypeIPv4, echo(own)[:15])},
		{"ARP reply for another", arp(fakeguest.ARPReply, f.MAC(), other)},
		{"ARP announcement for another", arp(fakeguest.ARPRequest, f.MAC(), other)},
		{"ARP reply for the gateway", arp(fakeguest.ARPReply, f.MAC(), gatewayAddr)},
		{"ARP with another's MAC", arp(fakeguest.ARPReply, v.MAC(), own)},
		{"DHCP server", eth(fakeguest.TypeIPv4, dhcp(67, 68, v.MAC(), dhcpv4.MessageTypeAck, dhcpv4.OpcodeBootReply))},
		{"DHCP server on another port", eth(fakeguest.TypeIPv4, dhcp(1067, 68, v.MAC(), dhcpv4.MessageTypeOffer, dhcpv4.OpcodeBootReply))},
		{"DHCP for another", eth(fakeguest.TypeIPv4, dhcp(68, 67, v.MAC(), dhcpv4.MessageTypeRelease, dhcpv4.OpcodeBootRequest))},
		{"another's IPv6 address", icmp6(f.MAC(), linkLocal(v.MAC()), []byte{128, 0, 0, 0, 0, 1, 0, 1})},
		{"neighbour advertisement for another", icmp6(f.MAC(), linkLocal(f.MAC()), neighbour(136, linkLocal(v.MAC()), f.MAC()))},
		{"neighbour advertisement with another's MAC", icmp6(f.MAC(), linkLocal(f.MAC()), neighbour(136, linkLocal(f.MAC()), v.MAC()))},
		{"neighbour solicitation with another's MAC", icmp6(f.MAC(), linkLocal(f.MAC()), neighbour(135, linkLocal(v.MAC()), v.MAC()))},
		{"duplicate address detection for another", icmp6(f.MAC(), none, neighbour(135, linkLocal(v.MAC()), nil)[:24])},
		{"router advertisement", icmp6(f.MAC(), linkLocal(f.MAC()), append([]byte{134, 0, 0, 0, 64, 0, 7, 8}, none[:8]...))},
		{"VLAN tag", eth(0x8100, append([]byte{0, 0, 8, 0}, echo(other)...))},
		{"ARP behind SNAP", eth(36, append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 6}, arp(fakeguest.ARPReply, f.MAC(), other)[14:]...))},
	}
}

// forgedArrive are the names of those of forged that reach one of the listeners when f sends them. A last frame, which is not forged,
// shows that whatever was to come has come.
func forgedArrive(t *testing.T, f *fakeguest.Guest, forged []forgery, listeners ...*fakeguest.Listener) (names []string) {
	t.Helper()
	arrived := map[string]bool{}
	for _, x := range forged {
		require.NoError(t, f.Send(x.frame))
	}
	last := testFrame(fakeguest.Broadcast, f.MAC(), "that was all")
	require.NoError(t, f.Send(last))
	for _, l := range listeners {
		for {
			got, err := l.Next(patience)
			require.NoError(t, err, "the last frame is missing")
			if bytes.HasPrefix(got, last) {
				break
			}
			for _, x := range forged {
				if bytes.HasPrefix(got, x.frame) {
					arrived[x.name] = true
				}
			}
		}
	}
	for _, x := range forged {
		if arrived[x.name] {
			names = append(names, x.name)
		}
	}
	return names
}

// TestForgeries: with --anti-spoof none of them arrives, by whatever way the forger is connected, and guests that behave do not
// notice. Without it they all do.
func TestForgeries(t *testing.T) {
	for name, args := range map[string][]string{"off": nil, "on": {antiSpoof}} {
		t.Run(name, func(t *testing.T) {
			p := startOpen(t, args...)
			victim := over(t, p.stream())
			l, err := victim.Configure()
			require.NoError(t, err)
			for _, way := range []vnettest.Transport{p.stream(), p.unconnected(), p.attach(proto.Datagram), p.adopt(proto.Stream, true)} {
				f, witness := over(t, way), over(t, p.connected())
				for _, g := range []*fakeguest.Guest{f, witness} {
					_, err := g.Configure()
					require.NoError(t, err, way.Name)
				}
				introduce(t, f, witness, victim)
				all := forgeries(t, f, victim)
				a, b := witness.Listen(nil), victim.Listen(nil)
				arrived := forgedArrive(t, f, all, a, b)
				a.Close()
				b.Close()
				if args == nil {
					for _, x := range all {
						if !onSimulator() || x.name != fromOutside { // vmnet lets nothing pass from another subnet
							assert.Contains(t, arrived, x.name, "else this test shows nothing")
						}
					}
					return // the forger has the victim's MAC address now
				}
				assert.Empty(t, arrived, way.Name)
				for _, g := range []*fakeguest.Guest{victim, f, witness} { // all of them as before
					_, err = g.Ping(l.Gateway, 56)
					assert.NoError(t, err, way.Name)
				}
				got, err := witness.Resolve(victim.Addr().Addr())
				require.NoError(t, err, way.Name)
				assert.Equal(t, victim.MAC(), got)
				f.Close()
				witness.Close()
			}
			require.Eventually(t, func() bool { return bytes.Count([]byte(p.stderr.String()), []byte("drop_spoofed=23 ")) == 4 }, patience, 10*time.Millisecond)
			assert.Equal(t, 4, bytes.Count([]byte(p.stderr.String()), []byte(forgedLine)), "one line for each forger")
		})
	}
}

// TestAddressesOverAnUpgrade: the next program knows which client holds which address, leased or not, and so is what was dropped.
func TestAddressesOverAnUpgrade(t *testing.T) {
	p := startOpen(t, antiSpoof)
	leased, static, forger, witness := over(t, p.stream()), over(t, p.connected()), over(t, p.attach(proto.Datagram)), over(t, p.stream())
	l, err := leased.Configure()
	require.NoError(t, err)
	static.SetAddr(netip.MustParsePrefix("192.168.105.77/24"), gatewayAddr)
	forger.SetAddr(netip.MustParsePrefix("192.168.105.78/24"), gatewayAddr)
	guests := []*fakeguest.Guest{leased, static, forger}
	ping := func() {
		for _, g := range guests {
			require.Eventually(t, func() bool {
				_, err := g.Ping(gatewayAddr, 56)
				return err == nil
			}, patience, time.Millisecond, "%s", g.MAC())
		}
	}
	ping()
	introduce(t, witness, forger)
	try := func() []string {
		heard := witness.Listen(nil)
		defer heard.Close()
		return forgedArrive(t, forger, slices.Concat(forgeries(t, forger, leased), forgeries(t, forger, static)), heard)
	}
	assert.Empty(t, try())
	for range 3 {
		_, stderr, err := p.upgrade(t)
		require.NoError(t, err, stderr)
		introduce(t, witness, forger)
		assert.Empty(t, try())
		ping()
	}
	_, err = leased.Renew(l)
	assert.NoError(t, err)
	forger.Close()
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "drop_spoofed=184 ") }, patience, 10*time.Millisecond, "%s", p.stderr)
}
