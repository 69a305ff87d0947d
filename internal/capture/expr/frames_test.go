// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"
)

// A sample is a frame that filters are tried on.
type sample struct {
	name string
	data []byte
}

var (
	macA, _ = net.ParseMAC("52:54:00:12:34:56")
	macB, _ = net.ParseMAC("52:54:00:ab:cd:ef")
	bcast   = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	mcast   = net.HardwareAddr{0x01, 0x00, 0x5e, 0, 0, 0xfb}
)

// samples are frames of all kinds that guests send, and of some that they do not.
func samples(t *testing.T) (all []sample) {
	t.Helper()
	add := func(name string, ls ...gopacket.SerializableLayer) {
		b := gopacket.NewSerializeBuffer()
		require.NoError(t, gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, ls...), name)
		all = append(all, sample{name, b.Bytes()})
	}
	eth := func(src, dst net.HardwareAddr, typ layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{SrcMAC: src, DstMAC: dst, EthernetType: typ}
	}
	vlan := func(id uint16, typ layers.EthernetType) *layers.Dot1Q {
		return &layers.Dot1Q{VLANIdentifier: id, Type: typ}
	}
	ip4 := func(src, dst string, p layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{
			Version: 4, TTL: 64, Protocol: p,
			SrcIP: netip.MustParseAddr(src).AsSlice(), DstIP: netip.MustParseAddr(dst).AsSlice(),
		}
	}
	ip6 := func(src, dst string, p layers.IPProtocol) *layers.IPv6 {
		return &layers.IPv6{
			Version: 6, HopLimit: 64, NextHeader: p,
			SrcIP: netip.MustParseAddr(src).AsSlice(), DstIP: netip.MustParseAddr(dst).AsSlice(),
		}
	}
	tcp := func(src, dst layers.TCPPort) *layers.TCP {
		return &layers.TCP{SrcPort: src, DstPort: dst, SYN: src > dst, ACK: src <= dst, Window: 1024}
	}
	udp := func(src, dst layers.UDPPort) *layers.UDP { return &layers.UDP{SrcPort: src, DstPort: dst} }
	text := gopacket.Payload("a payload of some bytes")
	long := gopacket.Payload(make([]byte, 1200))

	for _, p := range []layers.TCPPort{22, 53, 80, 443, 8080} {
		add(fmt.Sprintf("tcp4 to %d", p), eth(macA, macB, 0x800), ip4("192.168.105.2", "192.168.105.3", 6), tcp(40000, p), text)
		add(fmt.Sprintf("tcp4 from %d", p), eth(macB, macA, 0x800), ip4("192.168.105.3", "192.168.105.2", 6), tcp(p, 40000), long)
		add(fmt.Sprintf("tcp6 to %d", p), eth(macA, macB, 0x86dd), ip6("fd00::2", "fd00::3", 6), tcp(40000, p), text)
		add(fmt.Sprintf("vlan tcp4 to %d", p), eth(macA, macB, 0x8100), vlan(5, 0x800), ip4("192.168.105.2", "192.168.105.3", 6), tcp(40000, p), text)
	}
	for _, p := range []layers.UDPPort{53, 67, 68, 123, 5353} {
		add(fmt.Sprintf("udp4 to %d", p), eth(macA, bcast, 0x800), ip4("0.0.0.0", "255.255.255.255", 17), udp(68, p), text)
		add(fmt.Sprintf("udp4 from %d", p), eth(macB, macA, 0x800), ip4("192.168.105.1", "192.168.105.2", 17), udp(p, 40001), long)
		add(fmt.Sprintf("udp6 to %d", p), eth(macA, macB, 0x86dd), ip6("fe80::5054:ff:fe12:3456", "ff02::fb", 17), udp(40001, p), text)
	}
	add("mdns", eth(macA, mcast, 0x800), ip4("192.168.105.2", "224.0.0.251", 17), udp(5353, 5353), text)
	add("icmp", eth(macA, macB, 0x800), ip4("192.168.105.2", "8.8.8.8", 1), &layers.ICMPv4{TypeCode: 0x0800}, text)
	add("icmp reply", eth(macB, macA, 0x800), ip4("8.8.8.8", "192.168.105.2", 1), &layers.ICMPv4{}, text)
	add("icmp6", eth(macA, macB, 0x86dd), ip6("fe80::1", "ff02::1", 58), gopacket.Payload{128, 0, 0, 0, 0, 1, 0, 1})
	add("igmp", eth(macA, mcast, 0x800), ip4("192.168.105.2", "224.0.0.22", 2), gopacket.Payload(make([]byte, 8)))
	add("sctp", eth(macA, macB, 0x800), ip4("10.1.2.3", "192.168.105.2", 132), gopacket.Payload{0x9c, 0x40, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0})
	add("esp", eth(macA, macB, 0x800), ip4("10.1.2.3", "10.1.255.3", 50), text)
	frag := ip4("192.168.105.2", "192.168.105.3", 17)
	frag.FragOffset = 185
	add("fragment", eth(macA, macB, 0x800), frag, gopacket.Payload{0, 53, 0, 53, 1, 2, 3, 4, 5, 6, 7, 8})
	first := ip4("192.168.105.2", "192.168.105.3", 17)
	first.Flags = layers.IPv4MoreFragments
	add("first fragment", eth(macA, macB, 0x800), first, udp(40000, 53), text)
	opts := ip4("192.168.105.2", "192.168.105.3", 6)
	opts.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 80}}}
	add("tcp4 behind IP options", eth(macA, macB, 0x800), opts, tcp(80, 22), text)
	for op, name := range map[uint16]string{1: "arp request", 2: "arp reply"} {
		add(name, eth(macA, bcast, 0x806), &layers.ARP{
			AddrType: 1, Protocol: 0x800, HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
			SourceHwAddress: macA, SourceProtAddress: []byte{192, 168, 105, 2}, DstHwAddress: macB, DstProtAddress: []byte{192, 168, 105, 3},
		})
	}
	add("rarp", eth(macA, bcast, 0x8035), gopacket.Payload(make([]byte, 28)))
	add("stp", eth(macA, net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0}, 38), gopacket.Payload(make([]byte, 38)))
	add("vlan 5 arp", eth(macA, bcast, 0x8100), vlan(5, 0x806), gopacket.Payload(make([]byte, 28)))
	add("vlan 7 ipv6", eth(macA, macB, 0x8100), vlan(7, 0x86dd), ip6("fd00::2", "fd00::3", 17), udp(40000, 53), text)
	add("experimental", eth(macA, macB, 0x88b5), text)
	add("shortest", eth(macA, macB, 0x88b5))
	add("ipv6 fragment", eth(macA, macB, 0x86dd), ip6("fd00::2", "fd00::3", 44), gopacket.Payload{6, 0, 0, 0, 0, 0, 0, 1, 0x9c, 0x40, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0})
	add("empty ipv4", eth(macA, macB, 0x800))
	add("cut ipv4", eth(macA, macB, 0x800), gopacket.Payload{0x45, 0, 0, 40})
	return all
}
