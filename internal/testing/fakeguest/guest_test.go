// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain checks that no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBadStream sends what a daemon must never send: the guest ends with an error that tells what it was.
func TestBadStream(t *testing.T) {
	tests := []struct {
		name string
		sent []byte
		want error
	}{
		{"length 0", []byte{0, 0, 0, 0}, ErrBadFrame},
		{"length 13", append([]byte{0, 0, 0, 13}, make([]byte, 13)...), ErrBadFrame},
		{"length 32769", append([]byte{0, 0, 0x80, 1}, make([]byte, 32769)...), ErrBadFrame},
		{"half a prefix", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"half a frame", []byte{0, 0, 0, 20, 1, 2, 3}, io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c1, c2 := net.Pipe()
			g, err := New(StreamLink(c1), Options{})
			require.NoError(t, err)
			defer g.Close()
			_, _ = c2.Write(tt.sent) // the guest may have hung up
			require.NoError(t, c2.Close())
			<-g.Done()
			assert.ErrorIs(t, g.Err(), tt.want)
		})
	}
}

var (
	src = netip.MustParseAddrPort("192.168.105.2:1234")
	dst = netip.MustParseAddrPort("192.168.105.3:53")
)

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
			_, _ = p.DHCP()
		}
	})
}
