// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"
	gvisorsum "gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

var (
	src = netip.MustParseAddrPort("192.168.105.2:1234")
	dst = netip.MustParseAddrPort("192.168.105.3:53")
)

// TestAgainstGvisor checks the encoders and their checksums with another implementation.
func TestAgainstGvisor(t *testing.T) {
	for n := range 9 {
		data := []byte("\xff\xfe12345678")[:n]
		a, b := tcpip.AddrFrom4(src.Addr().As4()), tcpip.AddrFrom4(dst.Addr().As4())

		ip := header.IPv4(UDPPacket(src, dst, data))
		require.True(t, ip.IsValid(len(ip)))
		require.True(t, ip.IsChecksumValid())
		udp := header.UDP(ip.Payload())
		assert.True(t, udp.IsChecksumValid(a, b, gvisorsum.Checksum(udp.Payload(), 0)), "UDP with %d bytes", n)
		assert.Equal(t, data, udp.Payload())

		icmp := header.ICMPv4(ICMPMessage(EchoRequest, 7, 9, data))
		assert.Equal(t, uint16(0xffff), gvisorsum.Checksum(icmp, 0), "ICMP with %d bytes", n)
		assert.Equal(t, header.ICMPv4Echo, icmp.Type())
		assert.EqualValues(t, 7, icmp.Ident())
		assert.EqualValues(t, 9, icmp.Sequence())
	}
	ip := header.IPv4(TCPPacket(src, dst, TCPSyn, 0xfffffffe, 5))
	tcp := header.TCP(ip.Payload())
	assert.True(t, tcp.IsChecksumValid(tcpip.AddrFrom4(src.Addr().As4()), tcpip.AddrFrom4(dst.Addr().As4()), 0, 0))
	assert.Equal(t, header.TCPFlagSyn, tcp.Flags())
	assert.EqualValues(t, 0xfffffffe, tcp.SequenceNumber())

	arp := header.ARP(ARPPacket(ARPReply, net.HardwareAddr{2, 0, 0, 0, 0, 2}, src.Addr(), net.HardwareAddr{2, 0, 0, 0, 0, 3}, dst.Addr()))
	require.True(t, arp.IsValid())
	assert.Equal(t, header.ARPReply, arp.Op())
	assert.Equal(t, []byte{192, 168, 105, 3}, arp.ProtocolAddressTarget())
}

// TestParseFindsDamage flips each bit and cuts at each byte: checksums and lengths notice, addresses of Ethernet apart.
func TestParseFindsDamage(t *testing.T) {
	for name, packet := range map[string][]byte{
		"UDP":  UDPPacket(src, dst, []byte("payload")),
		"TCP":  TCPPacket(src, dst, TCPSyn, 1, 2),
		"ICMP": IPv4Packet(src.Addr(), dst.Addr(), ProtoICMP, ICMPMessage(EchoRequest, 7, 9, []byte("x"))),
	} {
		f := EthernetFrame(Broadcast, Broadcast, TypeIPv4, packet)
		_, err := Parse(f)
		require.NoError(t, err, name)
		for i := 14; i < len(f); i++ {
			_, err := Parse(f[:i])
			assert.Error(t, err, "%s cut at %d", name, i)
			for bit := range 8 {
				f[i] ^= 1 << bit
				_, err := Parse(f)
				assert.Error(t, err, "%s with bit %d of byte %d flipped", name, bit, i)
				f[i] ^= 1 << bit
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 2}
	f.Add(EthernetFrame(Broadcast, mac, TypeIPv4, UDPPacket(src, dst, []byte("data"))))
	f.Add(EthernetFrame(Broadcast, mac, TypeIPv4, TCPPacket(src, dst, TCPSyn, 1, 2)))
	f.Add(EthernetFrame(Broadcast, mac, TypeIPv4, IPv4Packet(src.Addr(), dst.Addr(), ProtoICMP, ICMPMessage(8, 7, 9, []byte("x")))))
	f.Add(EthernetFrame(Broadcast, mac, TypeARP, ARPPacket(1, mac, src.Addr(), mac, dst.Addr())))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := Parse(in)
		if err == nil {
			require.LessOrEqual(t, len(p.Data), len(in)-14)
			_, _ = ParseDHCP(in)
		}
	})
}
