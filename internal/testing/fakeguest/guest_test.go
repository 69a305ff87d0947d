// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	subnet  = netip.MustParsePrefix("192.168.105.0/24")
	gateway = netip.MustParseAddr("192.168.105.1")
)

func host(last byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 105, last}), subnet.Bits())
}

// patience is how long something may take that takes no time.
const patience = 20 * time.Second

// TestMain checks that no test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plug plugs a guest into l for the length of the test.
func plug(t *testing.T, l Link, o Options) *Guest {
	t.Helper()
	g, err := New(l, o)
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

// streamPair makes two guests whose stream sockets are joined by a unix socket pair, without a daemon.
func streamPair(t *testing.T) (a, b *Guest) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	a, err = Dial(path, Options{Name: "a", Timeout: patience})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	conn, err := l.Accept()
	require.NoError(t, err)
	return a, plug(t, StreamLink(conn), Options{Name: "b", Timeout: patience})
}

func TestPing(t *testing.T) {
	for name, pair := range map[string]func(*testing.T) (a, b *Guest){"stream": streamPair, "datagram": datagramPair, "path": pathPair} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			_, err := a.Ping(host(2).Addr(), 56)
			require.ErrorIs(t, err, errNoAddress)
			a.SetAddr(host(2), gateway)
			b.SetAddr(host(3), gateway)
			for _, n := range []int{0, 1, 56, 1472, 8972} {
				rtt, err := a.Ping(host(3).Addr(), n)
				require.NoError(t, err, "%d bytes", n)
				assert.Positive(t, rtt)
			}
			rtt, err := b.Ping(host(2).Addr(), 56)
			require.NoError(t, err)
			assert.Less(t, rtt, patience)
			mac, err := a.Resolve(host(3).Addr())
			require.NoError(t, err)
			assert.Equal(t, b.MAC(), mac)
		})
	}
}

func TestNoAnswer(t *testing.T) {
	a, b := streamPair(t)
	a.opts.Timeout = 50 * time.Millisecond
	a.SetAddr(host(2), gateway)
	_, err := a.Resolve(host(3).Addr())
	require.ErrorIs(t, err, ErrTimeout)
	_, err = a.Ping(netip.MustParseAddr("8.8.8.8"), 1)
	require.ErrorIs(t, err, ErrTimeout, "no gateway")
	assert.ErrorContains(t, err, "resolve 192.168.105.1")
	b.SetAddr(host(3), gateway)
	b.opts.Quiet = true
	_, err = a.Resolve(host(3).Addr())
	require.ErrorIs(t, err, ErrTimeout, "quiet")
}

func TestUnreachable(t *testing.T) {
	a, b := streamPair(t)
	a.SetAddr(host(2), gateway)
	b.SetAddr(host(3), gateway)
	b.opts.Quiet = true
	l := b.Listen(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		f, err := l.Next(patience)
		assert.NoError(t, err)
		icmp := IPv4Packet(host(3).Addr(), host(2).Addr(), ProtoICMP, ICMPMessage(Unreachable, 0, 0, f[14:42]))
		assert.NoError(t, b.Send(EthernetFrame(a.MAC(), b.MAC(), TypeIPv4, icmp)))
	})
	a.mu.Lock()
	a.neighbour[host(3).Addr()] = b.MAC()
	a.mu.Unlock()
	_, err := a.Ping(host(3).Addr(), 8)
	assert.ErrorIs(t, err, errUnreachable)
}

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
			g := plug(t, StreamLink(c1), Options{})
			_, err := c2.Write(tt.sent)
			_ = err // the guest may have hung up
			require.NoError(t, c2.Close())
			<-g.Done()
			assert.ErrorIs(t, g.Err(), tt.want)
		})
	}
}

// TestDHCPMessages checks the fields by which RFC 2131 (table 4 and 4.3.2) tells the client's states apart.
func TestDHCPMessages(t *testing.T) {
	a, b := streamPair(t)
	a.opts.Timeout = time.Millisecond
	a.SetAddr(host(17), gateway)
	lease := Lease{Addr: host(17), Server: gateway, ServerMAC: b.MAC()}
	const toAll, toServer = " 0.0.0.0:68 to 255.255.255.255:67,", " 192.168.105.17:68 to 192.168.105.1:67,"
	for _, tt := range []struct {
		send func()
		to   net.HardwareAddr
		want string
	}{
		{func() { _, _ = a.Discover() }, Broadcast, "DISCOVER" + toAll + " of 0.0.0.0, requested <nil>, server <nil>"},
		{func() { _, _ = a.Reboot(host(17).Addr()) }, Broadcast, "REQUEST" + toAll + " of 0.0.0.0, requested 192.168.105.17, server <nil>"},
		{func() { _, _ = a.Renew(lease) }, b.MAC(), "REQUEST" + toServer + " of 192.168.105.17, requested <nil>, server <nil>"},
		{func() { _ = a.Release(lease) }, b.MAC(), "RELEASE" + toServer + " of 192.168.105.17, requested <nil>, server 192.168.105.1"},
	} {
		l := b.Listen(nil)
		tt.send()
		f, err := l.Next(patience)
		require.NoError(t, err)
		l.Close()
		p, err := Parse(f)
		require.NoError(t, err)
		m, err := dhcpv4.FromBytes(p.Data)
		require.NoError(t, err)
		assert.Equal(t, tt.want, fmt.Sprintf("%s %s to %s, of %s, requested %s, server %s",
			m.MessageType(), p.From(), p.To(), m.ClientIPAddr, m.RequestedIPAddress(), m.ServerIdentifier()))
		assert.Equal(t, tt.to, p.Dst)
		assert.Equal(t, a.MAC(), m.ClientHWAddr)
		if m.MessageType() != dhcpv4.MessageTypeRelease {
			assert.Equal(t, "a", m.HostName())
			assert.NotEmpty(t, m.ParameterRequestList())
		}
	}
}
