// SPDX-License-Identifier: Apache-2.0

package fakehost

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	subnet  = netip.MustParsePrefix("192.168.64.0/24")
	gateway = ip(1)
)

func ip(last byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 64, last}) }

func mac(last byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, last} }

// wire is the bridge of a network with the host's port: what a guest sends the host reads, what the host writes all
// guests get.
type wire struct {
	toHost chan []byte
	absent atomic.Bool
	failed atomic.Bool
	asked  atomic.Int64 // Reads

	mu     sync.Mutex
	guests map[*plug]bool
}

var errFailed = errors.New("failed")

func (w *wire) Read(buf []byte, timeout time.Duration) (int, error) {
	w.asked.Add(1)
	switch {
	case w.failed.Load():
		return 0, errFailed
	case w.absent.Load():
		return 0, ErrNoNetwork
	}
	select {
	case f := <-w.toHost:
		return copy(buf, f), nil
	case <-time.After(timeout):
		return 0, nil
	}
}

func (w *wire) Write(f []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.guests {
		p.receive(f)
	}
	return nil
}

// plug is a guest's link.
type plug struct {
	w       *wire
	receive func([]byte)
}

func (p *plug) Start(receive func([]byte), _ func(error)) error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.receive = receive
	p.w.guests[p] = true
	return nil
}

func (p *plug) Send(frames ...[]byte) error {
	for _, f := range frames {
		p.w.toHost <- bytes.Clone(f)
	}
	return nil
}

func (p *plug) Close() error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	delete(p.w.guests, p)
	return nil
}

func (w *wire) guest(t *testing.T, last byte) *fakeguest.Guest {
	t.Helper()
	g, err := fakeguest.New(&plug{w: w}, fakeguest.Options{MAC: mac(last)})
	require.NoError(t, err)
	t.Cleanup(g.Close)
	return g
}

func defaults() Options {
	return Options{Subnet: subnet, Gateway: gateway, DHCPStart: ip(2), DHCPEnd: ip(254)}
}

// run runs a host on a wire for the length of the test.
func run(t *testing.T, o Options) (*Host, *wire) {
	t.Helper()
	h := New(o)
	w := &wire{toHost: make(chan []byte, 256), guests: map[*plug]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, w) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	return h, w
}

func TestLeaseAndPing(t *testing.T) {
	h, w := run(t, defaults())
	a, b := w.guest(t, 1), w.guest(t, 2)
	l, err := a.Configure()
	require.NoError(t, err)
	assert.Equal(t, netip.PrefixFrom(ip(2), 24), l.Addr)
	assert.Equal(t, gateway, l.Gateway)
	assert.Equal(t, gateway, l.Server)
	assert.Equal(t, []netip.Addr{gateway}, l.DNS)
	assert.Equal(t, h.MAC(), l.ServerMAC)
	assert.Equal(t, DefaultLeaseTime, l.Time)
	assert.Nil(t, l.ACK.Options.Get(dhcpv4.OptionInterfaceMTU))
	other, err := b.Configure()
	require.NoError(t, err)
	assert.Equal(t, ip(3), other.Addr.Addr())

	got, err := a.Resolve(gateway)
	require.NoError(t, err)
	assert.Equal(t, h.MAC(), got)
	for _, n := range []int{0, 56, 1472} {
		_, err = a.Ping(gateway, n)
		require.NoError(t, err, "%d bytes", n)
	}
	answer, err := a.ExchangeUDP(netip.AddrPortFrom(gateway, echoPort), []byte("hello"))
	require.NoError(t, err)
	assert.Equal(t, "hello", string(answer))
}

// TestLeaseStates takes one client through the states of RFC 2131.
func TestLeaseStates(t *testing.T) {
	_, w := run(t, defaults())
	g := w.guest(t, 1)
	l, err := g.Configure()
	require.NoError(t, err)
	for name, extend := range map[string]func(fakeguest.Lease) (fakeguest.Lease, error){"renew": g.Renew, "rebind": g.Rebind} {
		again, err := extend(l)
		require.NoError(t, err, name)
		assert.Equal(t, l.Addr, again.Addr, name)
	}
	again, err := g.Reboot(l.Addr.Addr())
	require.NoError(t, err)
	assert.Equal(t, l.Addr, again.Addr)
	_, err = g.Reboot(netip.MustParseAddr("10.0.0.5"))
	require.ErrorIs(t, err, fakeguest.ErrNAK, "of another network")
	again, err = g.Reboot(ip(77))
	require.NoError(t, err, "a host that has forgotten its leases")
	assert.Equal(t, ip(77), again.Addr.Addr())
	ack, err := g.Inform()
	require.NoError(t, err)
	assert.True(t, ack.YourIPAddr.IsUnspecified())
	assert.Equal(t, gateway.String(), ack.Router()[0].String())

	_, err = w.guest(t, 2).Reboot(ip(77))
	require.ErrorIs(t, err, fakeguest.ErrNAK, "somebody else's")
	require.NoError(t, g.Release(again))
	got, err := w.guest(t, 3).Reboot(ip(77))
	require.NoError(t, err, "released")
	assert.Equal(t, ip(77), got.Addr.Addr())

	offer, err := g.Discover(dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IP{192, 168, 64, 88})))
	require.NoError(t, err)
	assert.Equal(t, ip(88).String(), offer.YourIPAddr.String(), "as wished")
	l, err = g.Request(offer)
	require.NoError(t, err)
	require.NoError(t, g.Decline(l))
	offer, err = g.Discover(dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IP{192, 168, 64, 88})))
	require.NoError(t, err)
	assert.NotEqual(t, ip(88).String(), offer.YourIPAddr.String(), "declined")
}

func TestReservations(t *testing.T) {
	o := defaults()
	o.Reservations = []vnet.Reservation{{MAC: mac(1), Addr: ip(2)}, {MAC: mac(2), Addr: ip(200)}}
	_, w := run(t, o)
	for last, want := range map[byte]byte{1: 2, 2: 200, 3: 3} {
		l, err := w.guest(t, last).Configure()
		require.NoError(t, err)
		assert.Equal(t, ip(want), l.Addr.Addr())
	}
	_, err := w.guest(t, 1).Reboot(ip(9))
	require.ErrorIs(t, err, fakeguest.ErrNAK, "another than the reserved one")
}

// TestSilentServer: a host whose DHCP server is kept from answering, and is let answer again.
func TestSilentServer(t *testing.T) {
	var silent atomic.Bool
	silent.Store(true)
	o := defaults()
	o.Silent = silent.Load
	_, w := run(t, o)
	g := w.guest(t, 1)
	l := g.ListenDHCP()
	defer l.Close()
	m, err := dhcpv4.NewDiscovery(g.MAC())
	require.NoError(t, err)
	require.NoError(t, g.SendDHCP(m))
	g.SetAddr(netip.PrefixFrom(ip(9), 24), gateway)
	_, err = g.Resolve(gateway) // is answered behind it
	require.NoError(t, err)
	assert.Empty(t, l.Collect(0))
	silent.Store(false)
	_, err = g.Configure()
	require.NoError(t, err)
}

func TestSmallPool(t *testing.T) {
	o := defaults()
	o.DHCPStart, o.DHCPEnd = gateway, ip(3) // the gateway itself is never leased
	o.LeaseTime = time.Minute
	s := newServer(&o)
	now := time.Now()
	s.now = func() time.Time { return now }
	discover := func(last byte) *dhcpv4.DHCPv4 {
		m, err := dhcpv4.NewDiscovery(mac(last))
		require.NoError(t, err)
		return s.handle(mac(last), m.ToBytes())
	}
	assert.Equal(t, ip(2).String(), discover(1).YourIPAddr.String())
	assert.Equal(t, ip(3).String(), discover(2).YourIPAddr.String())
	assert.Nil(t, discover(3), "full")
	assert.Equal(t, ip(2).String(), discover(1).YourIPAddr.String(), "the same one again")
	now = now.Add(offerTime + time.Second)
	assert.Equal(t, ip(2).String(), discover(3).YourIPAddr.String(), "nobody took the offers")
	assert.Equal(t, ip(3).String(), discover(2).YourIPAddr.String())
	assert.Nil(t, discover(1))
	assert.Len(t, s.leases, 2)
}

// TestLargePool: what a storm of clients makes the host remember is bounded.
func TestLargePool(t *testing.T) {
	o := Options{
		Subnet: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("10.0.0.1"),
		DHCPStart: netip.MustParseAddr("10.0.0.2"), DHCPEnd: netip.MustParseAddr("10.255.255.254"),
	}
	s := newServer(&o)
	for i := range 300 {
		who := net.HardwareAddr{2, 1, 0, 0, byte(i >> 8), byte(i)}
		m, err := dhcpv4.NewDiscovery(who)
		require.NoError(t, err)
		require.NotNil(t, s.handle(who, m.ToBytes()))
	}
	assert.Equal(t, netip.MustParseAddr("10.0.16.1"), s.last)
}

func TestOptions(t *testing.T) {
	t.Run("no DHCP", func(t *testing.T) {
		o := defaults()
		o.DHCPStart, o.DHCPEnd = netip.Addr{}, netip.Addr{}
		_, w := run(t, o)
		g, err := fakeguest.New(&plug{w: w}, fakeguest.Options{Timeout: 50 * time.Millisecond})
		require.NoError(t, err)
		defer g.Close()
		_, err = g.Discover()
		require.ErrorIs(t, err, fakeguest.ErrTimeout)
		other := w.guest(t, 9)
		other.SetAddr(netip.PrefixFrom(ip(9), 24), gateway)
		_, err = other.Ping(gateway, 8)
		require.NoError(t, err)
	})
	t.Run("MTU and MAC", func(t *testing.T) {
		o := defaults()
		o.MTU, o.MAC = 4000, mac(99)
		h, w := run(t, o)
		assert.Equal(t, mac(99), h.MAC())
		l, err := w.guest(t, 1).Configure()
		require.NoError(t, err)
		mtu := l.ACK.Options.Get(dhcpv4.OptionInterfaceMTU)
		require.Len(t, mtu, 2)
		assert.EqualValues(t, 4000, binary.BigEndian.Uint16(mtu))
		assert.Equal(t, mac(99), l.ServerMAC)
		g := w.guest(t, 2)
		_, err = g.Configure()
		require.NoError(t, err)
		_, err = g.Ping(gateway, 3972)
		require.NoError(t, err)
	})
}

// TestSilence sends what must not be answered. Behind each frame an ARP request is sent, whose answer must come first.
func TestSilence(t *testing.T) {
	h, w := run(t, defaults())
	g := w.guest(t, 1)
	g.SetAddr(netip.PrefixFrom(ip(9), 24), gateway)
	eth, icmp := fakeguest.EthernetFrame, fakeguest.ICMPMessage(fakeguest.EchoRequest, 1, 1, nil)
	echo := func(src, dst netip.Addr) []byte { return fakeguest.IPv4Packet(src, dst, fakeguest.ProtoICMP, icmp) }
	udp := func(sport, dport uint16) []byte {
		return fakeguest.UDPPacket(netip.AddrPortFrom(ip(9), sport), netip.AddrPortFrom(gateway, dport), []byte("x"))
	}
	bcast := fakeguest.Broadcast
	tests := []struct {
		name  string
		frame []byte
	}{
		{"echo to another host", eth(h.MAC(), g.MAC(), fakeguest.TypeIPv4, echo(ip(9), ip(10)))},
		{"echo from outside", eth(h.MAC(), g.MAC(), fakeguest.TypeIPv4, echo(netip.MustParseAddr("8.8.8.8"), gateway))},
		{"echo from the gateway's address", eth(h.MAC(), g.MAC(), fakeguest.TypeIPv4, echo(gateway, gateway))},
		{"echo from the broadcast address", eth(h.MAC(), g.MAC(), fakeguest.TypeIPv4, echo(ip(255), gateway))},
		{"echo to all stations", eth(bcast, g.MAC(), fakeguest.TypeIPv4, echo(ip(9), gateway))},
		{"echo to another station", eth(mac(55), g.MAC(), fakeguest.TypeIPv4, echo(ip(9), gateway))},
		{"echo from a group", eth(h.MAC(), net.HardwareAddr{3, 0, 0, 0, 0, 1}, fakeguest.TypeIPv4, echo(ip(9), gateway))},
		{"echo from the host's own MAC", eth(h.MAC(), h.MAC(), fakeguest.TypeIPv4, echo(ip(9), gateway))},
		{"UDP to a closed port", eth(h.MAC(), g.MAC(), fakeguest.TypeIPv4, udp(1000, 9))},
		{"UDP between two echo ports", eth(h.MAC(), g.MAC(), fakeguest.TypeIPv4, udp(echoPort, echoPort))},
		{"ARP for another address", eth(bcast, g.MAC(), fakeguest.TypeARP, fakeguest.ARPPacket(1, g.MAC(), ip(9), make([]byte, 6), ip(10)))},
		{"ARP in another's name", eth(bcast, g.MAC(), fakeguest.TypeARP, fakeguest.ARPPacket(1, mac(8), ip(9), make([]byte, 6), gateway))},
		{"ARP reply", eth(h.MAC(), g.MAC(), fakeguest.TypeARP, fakeguest.ARPPacket(2, g.MAC(), ip(9), h.MAC(), gateway))},
		{"DHCP that is none", eth(bcast, g.MAC(), fakeguest.TypeIPv4, fakeguest.UDPPacket(
			netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67"), []byte("x")))},
		{"jumbo frame", eth(h.MAC(), g.MAC(), fakeguest.TypeIPv4, append(echo(ip(9), gateway), make([]byte, 1500)...))},
		{"runt", []byte{1, 2, 3}},
		{"14 bytes", make([]byte, 14)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := g.Listen(nil)
			defer l.Close()
			ask := eth(bcast, g.MAC(), fakeguest.TypeARP, fakeguest.ARPPacket(1, g.MAC(), ip(9), make([]byte, 6), gateway))
			require.NoError(t, g.Send(tt.frame, ask))
			f, err := l.Next(5 * time.Second)
			require.NoError(t, err)
			p, err := fakeguest.Parse(f)
			require.NoError(t, err)
			assert.EqualValues(t, fakeguest.ARPReply, p.ARPOp, "% x", f)
		})
	}
}

// TestForeignDHCP: requests in another's name and to another server.
func TestForeignDHCP(t *testing.T) {
	o := defaults()
	s := newServer(&o)
	m, err := dhcpv4.NewDiscovery(mac(1))
	require.NoError(t, err)
	assert.Nil(t, s.handle(mac(2), m.ToBytes()), "in another's name")
	offer := s.handle(mac(1), m.ToBytes())
	require.NotNil(t, offer)
	req, err := dhcpv4.NewRequestFromOffer(offer, dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.IP{192, 168, 64, 7})))
	require.NoError(t, err)
	assert.Nil(t, s.handle(mac(1), req.ToBytes()), "to another server")
	reply, err := dhcpv4.NewReplyFromRequest(m)
	require.NoError(t, err)
	assert.Nil(t, s.handle(mac(1), reply.ToBytes()), "a reply")
}

// TestNetworkComesAndGoes: the host outlives the network of a daemon that starts again, with its leases.
func TestNetworkComesAndGoes(t *testing.T) {
	o := defaults()
	h := New(o)
	w := &wire{toHost: make(chan []byte, 16), guests: map[*plug]bool{}}
	w.absent.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(t.Context(), w) }()
	require.Eventually(t, func() bool { return w.asked.Load() > 3 }, 20*time.Second, time.Millisecond)
	w.absent.Store(false)
	first, err := w.guest(t, 1).Configure()
	require.NoError(t, err)
	w.absent.Store(true)
	asked := w.asked.Load()
	require.Eventually(t, func() bool { return w.asked.Load() > asked+2 }, 20*time.Second, time.Millisecond)
	w.absent.Store(false)
	_, err = w.guest(t, 2).Configure()
	require.NoError(t, err)
	again, err := w.guest(t, 1).Configure()
	require.NoError(t, err)
	assert.Equal(t, first.Addr, again.Addr)
	w.failed.Store(true)
	require.ErrorIs(t, <-ended, errFailed)
}

// nowhere is a wire that takes everything.
type nowhere struct{ sent [][]byte }

func (*nowhere) Read([]byte, time.Duration) (int, error) { return 0, errFailed }

func (n *nowhere) Write(f []byte) error {
	n.sent = append(n.sent, f)
	return nil
}

// FuzzHandle sends any frames: there is at most one answer, well formed, from the host to a station that is not itself.
func FuzzHandle(f *testing.F) {
	o := defaults()
	h := New(o)
	eth := func(payload []byte) []byte {
		return fakeguest.EthernetFrame(h.MAC(), mac(1), fakeguest.TypeIPv4, payload)
	}
	f.Add(eth(fakeguest.IPv4Packet(ip(9), gateway, fakeguest.ProtoICMP, fakeguest.ICMPMessage(8, 1, 1, []byte("data")))))
	f.Add(eth(fakeguest.UDPPacket(netip.AddrPortFrom(ip(9), 1000), netip.AddrPortFrom(gateway, 7), []byte("data"))))
	f.Add(fakeguest.EthernetFrame(fakeguest.Broadcast, mac(1), fakeguest.TypeARP, fakeguest.ARPPacket(1, mac(1), ip(9), mac(0), gateway)))
	for _, kind := range []dhcpv4.MessageType{
		dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform, dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeDecline,
	} {
		m, err := dhcpv4.New(dhcpv4.WithHwAddr(mac(1)), dhcpv4.WithMessageType(kind),
			dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.IP{192, 168, 64, 9})))
		require.NoError(f, err)
		f.Add(fakeguest.EthernetFrame(fakeguest.Broadcast, mac(1), fakeguest.TypeIPv4, fakeguest.UDPPacket(
			netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67"), m.ToBytes())))
	}
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := &nowhere{}
		h.io = out
		h.handle(in)
		require.LessOrEqual(t, len(out.sent), 1)
		require.LessOrEqual(t, len(h.dhcp.leases), 253)
		for _, sent := range out.sent {
			p, err := fakeguest.Parse(sent)
			require.NoError(t, err)
			require.Equal(t, h.MAC(), p.Src)
			require.NotEqual(t, h.MAC(), p.Dst)
			require.LessOrEqual(t, len(sent), 1514)
		}
	})
}
