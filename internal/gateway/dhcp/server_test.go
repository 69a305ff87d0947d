// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rig is a server with a clock that the test turns, and what the server told of its leases.
type rig struct {
	t       *testing.T
	cfg     Config
	srv     *Server
	elapsed time.Duration
	kept    map[string]Lease // by MAC address; Left is the end on the rig's clock
}

func (r *rig) changed(l Lease) {
	for mac, other := range r.kept {
		if other.IP == l.IP {
			delete(r.kept, mac)
		}
	}
	l.Left += r.elapsed
	r.kept[l.MAC.String()] = l
}

func newRig(t *testing.T, last string) *rig {
	r := &rig{t: t, elapsed: time.Hour, kept: map[string]Lease{}}
	r.cfg = Config{
		Subnet: netip.MustParsePrefix("192.168.105.0/24"), Gateway: netip.MustParseAddr("192.168.105.1"),
		First: netip.MustParseAddr("192.168.105.2"), Last: netip.MustParseAddr(last),
		Reserved: []netip.Addr{netip.MustParseAddr("192.168.105.254"), netip.MustParseAddr("192.168.105.255")},
		Router:   true, DNS: true, MTU: 1500, Changed: r.changed, Log: slog.New(slog.DiscardHandler),
		Elapsed: func() time.Duration { return r.elapsed },
	}
	r.srv = New(r.cfg)
	return r
}

func (r *rig) stats() Counters { c, _, _ := r.srv.Stats(); return c }

// pass lets time pass.
func (r *rig) pass(d time.Duration) { r.elapsed += d }

// restart starts over with what the server told.
func (r *rig) restart() { r.restartAfter(0) }

// restartAfter is restart after a time that the clock of leases takes for d.
func (r *rig) restartAfter(d time.Duration) {
	r.cfg.Leases = nil
	for _, l := range r.kept {
		l.Left -= r.elapsed + d
		r.cfg.Leases = append(r.cfg.Leases, l)
	}
	slices.SortFunc(r.cfg.Leases, func(a, b Lease) int { return a.IP.Compare(b.IP) })
	r.srv = New(r.cfg)
}

func mac(n int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, byte(n >> 8), byte(n)} }

func wish(ip string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(ip)))
}

func server(ip string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(ip)))
}
func ciaddr(ip string) dhcpv4.Modifier { return dhcpv4.WithClientIP(net.ParseIP(ip)) }

// message is a DHCP message of client n.
func message(n int, kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	m := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootRequest, HWType: 1, ClientHWAddr: mac(n), TransactionID: dhcpv4.TransactionID{1, 2, 3, byte(n)},
		Options: dhcpv4.Options{},
	}
	m.UpdateOption(dhcpv4.OptMessageType(kind))
	for _, mod := range mods {
		mod(m)
	}
	return m
}

// tell sends a message of client n, which is behind the port of that number, and returns the answer in short: "OFFER ip",
// "ACK ip", "NAK" or "" for silence.
func (r *rig) tell(n int, kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) string {
	r.t.Helper()
	return r.tellFrom(uint64(n), n, kind, mods...)
}

func (r *rig) tellFrom(port uint64, n int, kind dhcpv4.MessageType, mods ...dhcpv4.Modifier) string {
	r.t.Helper()
	reply, ok := r.srv.Handle(port, mac(n), message(n, kind, mods...).ToBytes())
	if !ok {
		return ""
	}
	a, err := dhcpv4.FromBytes(reply.Payload)
	require.NoError(r.t, err)
	require.Equal(r.t, mac(n), a.ClientHWAddr)
	if a.MessageType() == dhcpv4.MessageTypeNak {
		require.Equal(r.t, broadcastMAC, reply.MAC)
		return "NAK"
	}
	return a.MessageType().String() + " " + a.YourIPAddr.String()
}

const (
	discover = dhcpv4.MessageTypeDiscover
	request  = dhcpv4.MessageTypeRequest
	decline  = dhcpv4.MessageTypeDecline
	release  = dhcpv4.MessageTypeRelease
	inform   = dhcpv4.MessageTypeInform
)

// lease gets client n an address.
func (r *rig) lease(n int) string { return r.leaseFrom(uint64(n), n) }

func (r *rig) leaseFrom(port uint64, n int, mods ...dhcpv4.Modifier) string {
	r.t.Helper()
	offer := r.tellFrom(port, n, discover)
	if offer == "" {
		return ""
	}
	ip := offer[len("OFFER "):]
	require.Equal(r.t, "ACK "+ip, r.tellFrom(port, n, request, append(mods, wish(ip), server("192.168.105.1"))...))
	return ip
}

// step is one message of client n and the answer it gets.
type step struct {
	pass time.Duration // before it
	n    int
	kind dhcpv4.MessageType
	mods []dhcpv4.Modifier
	want string
}

func say(n int, kind dhcpv4.MessageType, want string, mods ...dhcpv4.Modifier) step {
	return step{n: n, kind: kind, mods: mods, want: want}
}

func later(d time.Duration, s step) step { s.pass = d; return s }

const gw = "192.168.105.1"

func TestLifeCycle(t *testing.T) {
	const a2, a3, a9 = "192.168.105.2", "192.168.105.3", "192.168.105.9"
	bound := []step{say(1, discover, "OFFER "+a2), say(1, request, "ACK "+a2, wish(a2), server(gw))}
	after := func(steps ...step) []step { return append(bound[:2:2], steps...) }
	tests := []struct {
		name  string
		steps []step
	}{
		{"DISCOVER, REQUEST", bound},
		{"again gets the same", after(say(1, discover, "OFFER "+a2), say(1, request, "ACK "+a2, wish(a2), server(gw)))},
		{"after expiry gets the same", after(later(9*time.Hour, say(1, discover, "OFFER "+a2)))},
		{"the next client gets the next", after(say(2, discover, "OFFER "+a3))},
		{"wish is granted", []step{say(1, discover, "OFFER "+a9, wish(a9))}},
		{"wish for a taken one", after(say(2, discover, "OFFER "+a3, wish(a2)))},
		{"wish for the alias", []step{say(1, discover, "OFFER "+a2, wish("192.168.105.254"))}},
		{"an offer is held", []step{say(1, discover, "OFFER "+a2), say(2, discover, "OFFER "+a3)}},
		{"but not for long", []step{say(1, discover, "OFFER "+a2), later(offerTime, say(2, discover, "OFFER "+a2))}},
		{"offer of another server taken", []step{
			say(1, discover, "OFFER "+a2), say(1, request, "", wish("192.168.105.50"), server("192.168.105.9")), say(2, discover, "OFFER "+a2),
		}},
		{"another server, lease stays", after(say(1, request, "", wish(a9), server(a9)), say(2, discover, "OFFER "+a3))},
		{"SELECTING another address than offered", []step{
			say(1, discover, "OFFER "+a2), say(2, discover, "OFFER "+a3), say(2, request, "NAK", wish(a2), server(gw)),
		}},
		{"INIT-REBOOT, known", after(later(time.Minute, say(1, request, "ACK "+a2, wish(a2))))},
		{"INIT-REBOOT, expired", after(later(5*time.Hour, say(1, request, "ACK "+a2, wish(a2))))},
		{"INIT-REBOOT, unknown and free", []step{say(1, request, "ACK "+a9, wish(a9)), say(2, request, "NAK", wish(a9))}},
		{"INIT-REBOOT, taken", after(say(2, request, "NAK", wish(a2)))},
		{"INIT-REBOOT, taken but expired", after(later(2*time.Hour, say(2, request, "ACK "+a2, wish(a2))), say(1, discover, "OFFER "+a3))},
		{"INIT-REBOOT, other subnet", []step{say(1, request, "NAK", wish("192.168.64.5"))}},
		{"INIT-REBOOT, alias", []step{say(1, request, "NAK", wish("192.168.105.254"))}},
		{"INIT-REBOOT, moves to a free one", after(say(1, request, "ACK "+a9, wish(a9)), say(2, discover, "OFFER "+a2))},
		{"RENEWING", after(later(30*time.Minute, say(1, request, "ACK "+a2, ciaddr(a2))), later(45*time.Minute, say(2, discover, "OFFER "+a3)))},
		{"expired, but remembered while others are free", after(later(75*time.Minute, say(2, discover, "OFFER "+a3, wish(a2))))},
		{"REQUEST of nothing", []step{say(1, request, "")}},
		{"RELEASE", after(say(1, release, "", ciaddr(a2), server(gw)), say(2, discover, "OFFER "+a3), say(2, request, "ACK "+a2, wish(a2)))},
		{"RELEASE and come back", after(say(1, release, "", ciaddr(a2)), say(1, discover, "OFFER "+a2))},
		{"RELEASE of another's", after(say(2, release, "", ciaddr(a2)), say(2, request, "NAK", wish(a2)))},
		{"RELEASE to another server", after(say(1, release, "", ciaddr(a2), server(a9)), say(2, request, "NAK", wish(a2)))},
		{"DECLINE", after(
			say(1, decline, "", wish(a2), server(gw)), say(1, discover, "OFFER "+a3), say(2, request, "NAK", wish(a2)),
			later(quarantineTime, say(2, request, "ACK "+a2, wish(a2))),
		)},
		{"DECLINE of another's", after(say(2, decline, "", wish(a2), server(gw)), say(1, request, "ACK "+a2, ciaddr(a2)))},
		{"INFORM", []step{say(1, inform, "ACK 0.0.0.0", ciaddr("192.168.105.200"))}},
		{"INFORM from elsewhere", []step{say(1, inform, "", ciaddr("10.1.1.1"))}},
		{"OFFER from a client", []step{say(1, dhcpv4.MessageTypeOffer, "")}},
		{"no message type", []step{say(1, dhcpv4.MessageTypeNone, "")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "192.168.105.254")
			for i, s := range tt.steps {
				r.pass(s.pass)
				require.Equal(t, s.want, r.tell(s.n, s.kind, s.mods...), "step %d", i)
			}
		})
	}
}

// TestLeasesEndWhereTheyBegan: RELEASE and DECLINE count only from the port where the lease was taken.
func TestLeasesEndWhereTheyBegan(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	r.lease(1)
	r.tellFrom(9, 1, release, ciaddr("192.168.105.2"))
	assert.Equal(t, "NAK", r.tell(2, request, wish("192.168.105.2")))
	r.tellFrom(9, 1, decline, wish("192.168.105.2"))
	assert.Equal(t, "ACK 192.168.105.2", r.tell(1, request, ciaddr("192.168.105.2")))
}

// TestAnswer checks every field of an ACK.
func TestAnswer(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	r.lease(1)
	id := []byte{1, 2, 0, 0, 0, 0, 1}
	reply, ok := r.srv.Handle(1, mac(1), message(1, request, ciaddr("192.168.105.2"),
		dhcpv4.WithOption(dhcpv4.OptClientIdentifier(id))).ToBytes())
	require.True(t, ok)
	assert.GreaterOrEqual(t, len(reply.Payload), 300, "BOOTP clients want that much")
	a, err := dhcpv4.FromBytes(reply.Payload)
	require.NoError(t, err)
	assert.Equal(t, dhcpv4.OpcodeBootReply, a.OpCode)
	assert.Equal(t, dhcpv4.TransactionID{1, 2, 3, 1}, a.TransactionID)
	assert.Equal(t, "192.168.105.2", a.ClientIPAddr.String())
	assert.Equal(t, "192.168.105.2", a.YourIPAddr.String())
	assert.Equal(t, gw, a.ServerIdentifier().String())
	assert.Equal(t, "ffffff00", a.SubnetMask().String())
	assert.Equal(t, []net.IP{net.ParseIP(gw).To4()}, a.Router())
	assert.Equal(t, []net.IP{net.ParseIP(gw).To4()}, a.DNS())
	assert.Equal(t, []byte{0x05, 0xdc}, a.Options.Get(dhcpv4.OptionInterfaceMTU))
	assert.Equal(t, time.Hour, a.IPAddressLeaseTime(0))
	assert.Equal(t, 30*time.Minute, a.IPAddressRenewalTime(0))
	assert.Equal(t, 3150*time.Second, a.IPAddressRebindingTime(0))
	assert.Equal(t, id, a.Options.Get(dhcpv4.OptionClientIdentifier))

	r.cfg.Router = false
	r.restart()
	reply, _ = r.srv.Handle(1, mac(1), message(1, inform, ciaddr("192.168.105.2")).ToBytes())
	a, err = dhcpv4.FromBytes(reply.Payload)
	require.NoError(t, err)
	assert.Empty(t, a.Router(), "host mode has no way out")
	assert.False(t, a.Options.Has(dhcpv4.OptionIPAddressLeaseTime), "INFORM leases nothing")
}

// TestDestination is RFC 2131, 4.1.
func TestDestination(t *testing.T) {
	flag := func(d *dhcpv4.DHCPv4) { d.SetBroadcast() }
	tests := []struct {
		name string
		m    *dhcpv4.DHCPv4
		mac  net.HardwareAddr
		ip   string
	}{
		{"OFFER, unicast", message(1, discover), mac(1), "192.168.105.2"},
		{"OFFER, broadcast flag", message(1, discover, flag), broadcastMAC, "255.255.255.255"},
		{"ACK, rebooting", message(1, request, wish("192.168.105.2")), mac(1), "192.168.105.2"},
		{"ACK, broadcast flag", message(1, request, wish("192.168.105.2"), flag), broadcastMAC, "255.255.255.255"},
		{"ACK, renewing", message(1, request, ciaddr("192.168.105.2")), mac(1), "192.168.105.2"},
		{"ACK, renewing, broadcast flag", message(1, request, ciaddr("192.168.105.2"), flag), mac(1), "192.168.105.2"},
		{"INFORM", message(1, inform, ciaddr("192.168.105.77")), mac(1), "192.168.105.77"},
		{"NAK", message(1, request, wish("10.0.0.1")), broadcastMAC, "255.255.255.255"},
		{"NAK, renewing", message(1, request, ciaddr("10.0.0.1")), broadcastMAC, "255.255.255.255"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reply, ok := newRig(t, "192.168.105.254").srv.Handle(1, mac(1), tt.m.ToBytes())
			require.True(t, ok)
			assert.Equal(t, tt.mac, reply.MAC)
			assert.Equal(t, tt.ip+":68", reply.To.String())
		})
	}
}

func TestFullPool(t *testing.T) {
	r := newRig(t, "192.168.105.5") // 4 addresses
	for n := 1; n <= 4; n++ {
		require.NotEmpty(t, r.lease(n))
		r.pass(time.Minute)
	}
	assert.Empty(t, r.tell(5, discover))
	assert.EqualValues(t, 1, r.stats().PoolFull)
	assert.Equal(t, "ACK 192.168.105.2", r.tell(1, request, ciaddr("192.168.105.2")), "a client that has one keeps it")

	r.pass(59 * time.Minute) // 2, 3 and 4 have expired, 2 first; 1 was renewed
	assert.Equal(t, "192.168.105.3", r.lease(5), "the oldest expired goes first")
	assert.Equal(t, "192.168.105.4", r.lease(6))
	assert.Equal(t, "192.168.105.5", r.lease(4), "an expired lease is still its client's")
	assert.Empty(t, r.tell(2, discover), "the one that lost its address gets none")
}

// TestNewcomerGetsAddress: clients that come, take an address and go, however many, leave some for others. Who is there keeps its own.
func TestNewcomerGetsAddress(t *testing.T) {
	r := newRig(t, "192.168.105.5") // 4 addresses
	stays, back := r.lease(1), r.lease(2)
	r.srv.PortGone(2)
	r.srv.Seen(1002, [6]byte(mac(2)), netip.MustParseAddr("192.168.105.3")) // it came back, and sends
	r.srv.Seen(1003, [6]byte(mac(3)), netip.MustParseAddr("192.168.105.2")) // in another's name
	for n := 10; n < 300; n++ {
		require.NotEmpty(t, r.lease(n))
		r.srv.PortGone(uint64(n))
	}
	assert.Equal(t, "ACK "+stays, r.tell(1, request, ciaddr(stays)))
	assert.Equal(t, "ACK "+back, r.tellFrom(1002, 2, request, ciaddr(back)))
	assert.Zero(t, r.stats().PoolFull)
	r.restart() // nobody is seen yet
	assert.NotEmpty(t, r.lease(300))
}

// TestPerPort: 16 addresses behind a port, offers and declined ones included; the rest of the pool is for others.
func TestPerPort(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	for n := 1; n <= maxPerPort; n++ {
		require.NotEmpty(t, r.leaseFrom(7, n))
	}
	assert.Empty(t, r.tellFrom(7, 99, discover))
	assert.Empty(t, r.tellFrom(7, 99, request, wish("192.168.105.99")), "INIT-REBOOT is no way around")
	assert.EqualValues(t, 2, r.stats().PortFull)
	assert.Equal(t, "ACK 192.168.105.2", r.tellFrom(7, 1, request, ciaddr("192.168.105.2")), "renewal goes on")
	assert.NotEmpty(t, r.leaseFrom(8, 99), "another guest is not touched")

	r.tellFrom(7, 3, decline, wish("192.168.105.4"))
	assert.Empty(t, r.tellFrom(7, 98, discover), "a declined address counts")
	r.tellFrom(7, 4, release, ciaddr("192.168.105.5"))
	assert.Equal(t, "OFFER 192.168.105.19", r.tellFrom(7, 98, discover), "a released one does not")

	r.srv.PortGone(7)
	assert.Equal(t, "ACK 192.168.105.2", r.tellFrom(9, 1, request, ciaddr("192.168.105.2")), "the guest reconnects")
	assert.Equal(t, "OFFER 192.168.105.20", r.tellFrom(7, 97, discover), "a new guest with the old number starts at none")
}

func TestDropped(t *testing.T) {
	good := message(1, discover).ToBytes()
	change := func(f func(m *dhcpv4.DHCPv4)) []byte { m := message(1, discover); f(m); return m.ToBytes() }
	tests := []struct {
		name    string
		payload []byte
		foreign bool // else malformed
	}{
		{"empty", nil, false},
		{"cut in the header", good[:100], false},
		{"no cookie", append(append([]byte{}, good[:236]...), 0, 0, 0, 0), false},
		{"option beyond the end", append(append([]byte{}, good[:240]...), 50, 200, 1), false},
		{"a reply", change(func(m *dhcpv4.DHCPv4) { m.OpCode = dhcpv4.OpcodeBootReply }), false},
		{"not Ethernet", change(func(m *dhcpv4.DHCPv4) { m.HWType = 6 }), false},
		{"short chaddr", change(func(m *dhcpv4.DHCPv4) { m.ClientHWAddr = m.ClientHWAddr[:5] }), false},
		{"null chaddr", change(func(m *dhcpv4.DHCPv4) { m.ClientHWAddr = make(net.HardwareAddr, 6) }), true},
		{"chaddr of a group", change(func(m *dhcpv4.DHCPv4) { m.ClientHWAddr = net.HardwareAddr{3, 0, 0, 0, 0, 1} }), true},
		{"through a relay of another network", change(func(m *dhcpv4.DHCPv4) { m.GatewayIPAddr = net.IPv4(10, 0, 0, 1) }), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "192.168.105.254")
			_, ok := r.srv.Handle(1, mac(1), tt.payload)
			assert.False(t, ok)
			want := Counters{Malformed: 1}
			if tt.foreign {
				want = Counters{Foreign: 1}
			}
			assert.Equal(t, want, r.stats())
			assert.Empty(t, r.kept, "nothing changed")
		})
	}
	t.Run("multicast source", func(t *testing.T) {
		m := message(1, discover)
		m.ClientHWAddr = net.HardwareAddr{3, 0, 0, 0, 0, 1}
		_, ok := newRig(t, "192.168.105.254").srv.Handle(1, m.ClientHWAddr, m.ToBytes())
		assert.False(t, ok)
	})
}

func TestRestart(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	for n := 1; n <= 3; n++ {
		r.lease(n)
	}
	r.tell(1, request, ciaddr("192.168.105.2"), dhcpv4.WithOption(dhcpv4.OptHostName("alpine.local")))
	r.tell(4, discover) // an offer is not kept
	r.restart()
	require.Len(t, r.kept, 3)
	byIP := map[string]Lease{}
	for _, l := range r.cfg.Leases {
		byIP[l.IP.String()] = l
	}
	assert.Equal(t, "alpine", byIP["192.168.105.2"].Hostname)
	assert.Equal(t, time.Hour, byIP["192.168.105.2"].Left)
	assert.Equal(t, "192.168.105.4", r.lease(3), "same client, same address")
	assert.Equal(t, "NAK", r.tell(9, request, wish("192.168.105.2")), "and no other's")
	assert.Equal(t, "ACK 192.168.105.3", r.tell(2, request, ciaddr("192.168.105.3")))

	t.Run("another subnet", func(t *testing.T) {
		r.cfg.Subnet, r.cfg.Gateway = netip.MustParsePrefix("10.0.0.0/24"), netip.MustParseAddr("10.0.0.1")
		r.cfg.First, r.cfg.Last = netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.254")
		r.restart()
		assert.Equal(t, "OFFER 10.0.0.2", r.tell(1, discover))
		assert.Equal(t, "NAK", r.tell(1, request, wish("192.168.105.2")))
	})
}

// TestClockJumps: a jump of the clock that leases are kept by while there is no server costs no client its address, and keeps none for
// ever.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-50 * 365 * 24 * time.Hour, -2 * time.Hour, 2 * time.Hour, 200 * 365 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			r := newRig(t, "192.168.105.254")
			r.lease(1)
			r.lease(2)
			r.restartAfter(jump)
			assert.Equal(t, "192.168.105.4", r.lease(3), "not duplicated")
			assert.Equal(t, "ACK 192.168.105.3", r.tell(2, request, wish("192.168.105.3")), "not lost")
			r.pass(time.Hour)
			assert.Equal(t, "ACK 192.168.105.2", r.tell(4, request, wish("192.168.105.2")), "not kept for ever")
		})
	}
}

// TestBounded: a guest that goes through MAC addresses does not make the server remember more than it should.
func TestBounded(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	r.cfg.Subnet, r.cfg.Last = netip.MustParsePrefix("192.0.0.0/8"), netip.MustParseAddr("192.255.255.254")
	r.srv = New(r.cfg)
	require.Equal(t, maxLeases, r.srv.pool.limit)
	r.srv.pool.limit = 200 // the real one takes too long under the race detector
	for n := range 300 {
		if n%maxPerPort == 0 {
			r.pass(LeaseTime)
		}
		require.NotEmpty(t, r.leaseFrom(1, n), n)
	}
	assert.Len(t, r.srv.pool.byMAC, 200)
	assert.Equal(t, "ACK 192.168.200.200", r.tellFrom(2, 9999, request, wish("192.168.200.200")), "INIT-REBOOT forgets the oldest")
	assert.Len(t, r.srv.pool.byMAC, 200)
	assert.Len(t, r.srv.pool.byIP, len(r.srv.pool.byMAC))
}

// FuzzHandle feeds any bytes, from two clients in turn, and checks that the pool stays consistent.
func FuzzHandle(f *testing.F) {
	for _, m := range []*dhcpv4.DHCPv4{
		message(1, discover), message(1, request, wish("192.168.105.2"), server(gw)), message(1, request, ciaddr("192.168.105.2")),
		message(1, release, ciaddr("192.168.105.2")), message(1, decline, wish("192.168.105.2")), message(1, inform, ciaddr("192.168.105.9")),
	} {
		f.Add(m.ToBytes(), uint8(0))
		f.Add(m.ToBytes(), uint8(200))
	}
	f.Fuzz(func(t *testing.T, b []byte, minutes uint8) {
		r := newRig(t, "192.168.105.4")
		for n := 1; n <= 2; n++ {
			r.lease(n)
			r.srv.Handle(uint64(n), mac(1), b)
			r.pass(time.Duration(minutes) * time.Minute)
			r.srv.Handle(1, mac(1), b)
		}
		for ip, l := range r.srv.pool.byIP {
			if l.ip != ip || r.srv.pool.byMAC[l.mac] != l && l.mac != (mac48{}) || !r.srv.pool.contains(ip) {
				t.Fatalf("lease %+v of %v is inconsistent", l, ip)
			}
		}
		for m, l := range r.srv.pool.byMAC {
			if l.mac != m || r.srv.pool.byIP[l.ip] != l {
				t.Fatalf("lease %+v of %v is inconsistent", l, m)
			}
		}
	})
}
