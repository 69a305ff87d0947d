// SPDX-License-Identifier: Apache-2.0

package fakeguest

import (
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

// portPair makes two guests on a toy network.
func portPair(t *testing.T) (a, b *Guest) {
	t.Helper()
	n := newHub(t)
	return attach(t, n, Options{Name: "a", Timeout: patience}), attach(t, n, Options{Name: "b", Timeout: patience})
}

// onLinks runs a test on both kinds of links.
func onLinks(t *testing.T, test func(t *testing.T, a, b *Guest)) {
	t.Helper()
	t.Run("stream", func(t *testing.T) {
		a, b := streamPair(t)
		test(t, a, b)
	})
	t.Run("datagram", func(t *testing.T) {
		a, b := datagramPair(t)
		test(t, a, b)
	})
	t.Run("path", func(t *testing.T) {
		a, b := pathPair(t)
		test(t, a, b)
	})
	t.Run("port", func(t *testing.T) {
		a, b := portPair(t)
		test(t, a, b)
	})
}

func TestPing(t *testing.T) {
	onLinks(t, func(t *testing.T, a, b *Guest) {
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
		assert.Zero(t, a.Dropped()+b.Dropped())
	})
}

func TestNobodyAnswers(t *testing.T) {
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
	assert.ErrorIs(t, err, ErrUnreachable)
}

func TestUDP(t *testing.T) {
	onLinks(t, func(t *testing.T, a, b *Guest) {
		a.SetAddr(host(2), gateway)
		b.SetAddr(host(3), gateway)
		l := b.ListenUDP(53)
		defer l.Close()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			f, err := l.Next(patience)
			assert.NoError(t, err)
			p, err := Parse(f)
			assert.NoError(t, err)
			assert.Equal(t, "question", string(p.Data))
			assert.NoError(t, b.SendUDP(54, p.From(), []byte("from the wrong port")))
			assert.NoError(t, b.SendUDP(53, p.From(), []byte("answer")))
		})
		got, err := a.ExchangeUDP(netip.AddrPortFrom(host(3).Addr(), 53), []byte("question"))
		require.NoError(t, err)
		assert.Equal(t, "answer", string(got))
	})
}

func TestSYN(t *testing.T) {
	a, b := portPair(t)
	a.SetAddr(host(2), gateway)
	b.SetAddr(host(3), gateway)
	l := b.Listen(func(f []byte) bool {
		p, err := Parse(f)
		return err == nil && p.TCPFlags == TCPSyn
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		f, err := l.Next(patience)
		assert.NoError(t, err)
		p, _ := Parse(f)
		assert.EqualValues(t, 80, p.DstPort)
		assert.NoError(t, b.SendTCP(80, p.From(), TCPRst|TCPAck, 0, 2))
	})
	flags, err := a.ExchangeSYN(netip.AddrPortFrom(host(3).Addr(), 80))
	require.NoError(t, err)
	assert.EqualValues(t, TCPRst|TCPAck, flags)
}

func TestListener(t *testing.T) {
	a, b := streamPair(t)
	l := b.Listen(func(f []byte) bool { return f[13] == 0xb5 })
	all := b.Listen(nil)
	for i := range 5 {
		require.NoError(t, a.Send(EthernetFrame(net.HardwareAddr{2, 0, 0, 9, 9, 9}, a.MAC(), TypeTest+uint16(i%2), []byte{byte(i)})))
	}
	for range 5 {
		_, err := all.Next(patience)
		require.NoError(t, err, "frames to others' addresses too")
	}
	assert.Len(t, l.Collect(time.Millisecond), 3)
	l.Close()
	require.NoError(t, a.Send(EthernetFrame(b.MAC(), a.MAC(), TypeTest, nil)))
	_, err := all.Next(patience)
	require.NoError(t, err)
	_, err = l.Next(time.Millisecond)
	assert.ErrorIs(t, err, ErrTimeout, "closed")
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

// dhcpServer answers DISCOVER and REQUEST for one address by the book, for tests of the guest's client.
func dhcpServer(g *Guest, l *Listener, lease netip.Prefix, stop <-chan struct{}) []dhcpv4.MessageType {
	var got []dhcpv4.MessageType
	for {
		f, err := l.Next(10 * time.Millisecond)
		if err != nil {
			select {
			case <-stop:
				return got
			default:
				continue
			}
		}
		p, _ := Parse(f)
		m, err := dhcpv4.FromBytes(p.Data)
		if err != nil {
			continue
		}
		got = append(got, m.MessageType())
		mods := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptServerIdentifier(gateway.AsSlice()))}
		asked, _ := netip.AddrFromSlice(m.RequestedIPAddress().To4())
		if !asked.IsValid() {
			asked, _ = netip.AddrFromSlice(m.ClientIPAddr.To4())
		}
		switch {
		case m.MessageType() == dhcpv4.MessageTypeDiscover:
			mods = append(mods, dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), dhcpv4.WithYourIP(lease.Addr().AsSlice()))
		case m.MessageType() == dhcpv4.MessageTypeInform:
			mods = append(mods, dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithDNS(gateway.AsSlice()))
		case m.MessageType() != dhcpv4.MessageTypeRequest:
			continue
		case asked != lease.Addr():
			mods = append(mods, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak), dhcpv4.WithOption(dhcpv4.OptMessage("not yours")))
		default:
			mods = append(mods, dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithYourIP(lease.Addr().AsSlice()),
				dhcpv4.WithNetmask(net.CIDRMask(lease.Bits(), 32)), dhcpv4.WithRouter(gateway.AsSlice()),
				dhcpv4.WithDNS(gateway.AsSlice()), dhcpv4.WithLeaseTime(3600))
		}
		r, err := dhcpv4.NewReplyFromRequest(m, mods...)
		if err != nil {
			continue
		}
		to := netip.AddrPortFrom(broadcastIP, 68)
		_ = g.Send(EthernetFrame(p.Src, g.MAC(), TypeIPv4, UDPPacket(netip.AddrPortFrom(gateway, 67), to, r.ToBytes())))
	}
}

func TestDHCP(t *testing.T) {
	onLinks(t, func(t *testing.T, a, b *Guest) {
		b.SetAddr(netip.PrefixFrom(gateway, 24), gateway)
		stop := make(chan struct{})
		var seen []dhcpv4.MessageType
		var wg sync.WaitGroup
		l := b.Listen(b.matchPacket(func(p *Packet) bool { return p.Proto == ProtoUDP && p.DstPort == 67 }))
		wg.Go(func() { seen = dhcpServer(b, l, host(17), stop) })
		defer func() {
			close(stop)
			wg.Wait()
			assert.Equal(t, []dhcpv4.MessageType{
				dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeRequest,
				dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform, dhcpv4.MessageTypeDecline,
				dhcpv4.MessageTypeRelease,
			}, seen)
		}()

		lease, err := a.Configure()
		require.NoError(t, err)
		assert.Equal(t, host(17), lease.Addr)
		assert.Equal(t, host(17), a.Addr())
		assert.Equal(t, gateway, lease.Gateway)
		assert.Equal(t, gateway, lease.Server)
		assert.Equal(t, b.MAC(), lease.ServerMAC)
		assert.Equal(t, []netip.Addr{gateway}, lease.DNS)
		assert.Equal(t, time.Hour, lease.Time)
		assert.Zero(t, lease.T1)

		for name, extend := range map[string]func(Lease) (Lease, error){"renew": a.Renew, "rebind": a.Rebind} {
			again, err := extend(lease)
			require.NoError(t, err, name)
			assert.Equal(t, lease.Addr, again.Addr, name)
		}
		again, err := a.Reboot(lease.Addr.Addr())
		require.NoError(t, err)
		assert.Equal(t, lease.Addr, again.Addr)
		_, err = a.Reboot(host(99).Addr())
		require.ErrorIs(t, err, ErrNAK)
		assert.ErrorContains(t, err, "not yours")
		ack, err := a.Inform()
		require.NoError(t, err)
		assert.True(t, ack.YourIPAddr.IsUnspecified())
		require.NoError(t, a.Decline(lease))
		require.NoError(t, a.Release(lease))
		_, err = a.Ping(gateway, 8) // so that both have been seen
		require.NoError(t, err)
	})
}

// TestDHCPMessages checks the fields by which RFC 2131 (table 4 and 4.3.2) tells the client's states apart.
func TestDHCPMessages(t *testing.T) {
	a, b := portPair(t)
	a.opts.Timeout = time.Millisecond
	a.SetAddr(host(17), gateway)
	lease := Lease{Addr: host(17), Server: gateway, ServerMAC: b.MAC()}
	zero := netip.IPv4Unspecified()
	tests := []struct {
		name                   string
		send                   func()
		toMAC                  net.HardwareAddr
		src, dst               netip.Addr
		ciaddr                 string
		requested, server      string
		kind                   dhcpv4.MessageType
		hostnameAndParamsAsked bool
	}{
		{"discover", func() { _, _ = a.Discover() }, Broadcast, zero, broadcastIP, "0.0.0.0", "", "", dhcpv4.MessageTypeDiscover, true},
		{
			"reboot", func() { _, _ = a.Reboot(host(17).Addr()) }, Broadcast, zero, broadcastIP, "0.0.0.0", "192.168.105.17", "",
			dhcpv4.MessageTypeRequest, true,
		},
		{
			"renew", func() { _, _ = a.Renew(lease) }, b.MAC(), host(17).Addr(), gateway, "192.168.105.17", "", "",
			dhcpv4.MessageTypeRequest, true,
		},
		{
			"rebind", func() { _, _ = a.Rebind(lease) }, Broadcast, host(17).Addr(), broadcastIP, "192.168.105.17", "", "",
			dhcpv4.MessageTypeRequest, true,
		},
		{
			"release", func() { _ = a.Release(lease) }, b.MAC(), host(17).Addr(), gateway, "192.168.105.17", "", "192.168.105.1",
			dhcpv4.MessageTypeRelease, false,
		},
		{
			"decline", func() { _ = a.Decline(lease) }, Broadcast, zero, broadcastIP, "0.0.0.0", "192.168.105.17", "192.168.105.1",
			dhcpv4.MessageTypeDecline, false,
		},
		{"inform", func() { _, _ = a.Inform() }, Broadcast, host(17).Addr(), broadcastIP, "192.168.105.17", "", "", dhcpv4.MessageTypeInform, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := b.Listen(nil)
			defer l.Close()
			tt.send()
			f, err := l.Next(patience)
			require.NoError(t, err)
			p, err := Parse(f)
			require.NoError(t, err)
			m, err := dhcpv4.FromBytes(p.Data)
			require.NoError(t, err)
			assert.Equal(t, tt.kind, m.MessageType())
			assert.Equal(t, tt.toMAC, p.Dst)
			assert.Equal(t, netip.AddrPortFrom(tt.src, 68), p.From())
			assert.Equal(t, netip.AddrPortFrom(tt.dst, 67), p.To())
			assert.Equal(t, a.MAC(), m.ClientHWAddr)
			assert.Equal(t, tt.ciaddr, m.ClientIPAddr.String())
			for name, v := range map[string]struct {
				want string
				got  net.IP
			}{"requested": {tt.requested, m.RequestedIPAddress()}, "server": {tt.server, m.ServerIdentifier()}} {
				if tt.hostnameAndParamsAsked {
					assert.Equal(t, "a", m.HostName())
					assert.NotEmpty(t, m.ParameterRequestList())
				}
				if v.want == "" {
					assert.Nil(t, v.got, name)
				} else {
					assert.Equal(t, v.want, v.got.String(), name)
				}
			}
		})
	}
}
