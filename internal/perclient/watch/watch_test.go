// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	ip17    = netip.MustParseAddr("192.168.105.17")
	ip18    = netip.MustParseAddr("192.168.105.18")
	gateway = netip.MustParseAddr("192.168.105.1")
	none    [4]byte
)

// facts are what w knows but for counts and times.
func facts(w *Watch) Snapshot {
	s := w.Snapshot()
	return Snapshot{MAC: s.MAC, IP: s.IP, Hostname: s.Hostname, Wanted: s.Wanted, DHCP: s.DHCP}
}

func TestGoldenRequest(t *testing.T) {
	var w Watch
	assert.True(t, Interesting(goldenRequest))
	assert.True(t, w.FromClient(goldenRequest), "MAC and hostname are new")
	assert.Equal(t, Snapshot{MAC: guestMAC, Hostname: "alpha", Wanted: ip17, DHCP: REQUEST}, facts(&w))
	assert.Equal(t, guestMAC, w.Snapshot().MAC)
	assert.Equal(t, "alpha", w.Snapshot().Hostname)
	assert.Equal(t, "REQUEST", w.Snapshot().DHCP.String())
	assert.Equal(t, "Kind(9)", Kind(9).String())
	assert.False(t, w.Snapshot().IP.IsValid(), "asked for, not given")
	assert.False(t, w.FromClient(goldenRequest), "nothing new")
}

func TestInteresting(t *testing.T) {
	with := func(f []byte, at int, v ...byte) []byte {
		f = bytes.Clone(f)
		copy(f[at:], v)
		return f
	}
	tests := []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"ARP", goldenARP, true},
		{"DHCP from the client", goldenRequest, true},
		{"DHCP to the client", dhcp{kind: 5, reply: true}.frame(), true},
		{"nothing", nil, false},
		{"Ethernet header", goldenARP[:14], false},
		{"ARP cut by one byte", goldenARP[:41], false},
		{"IPv4 cut in the UDP header", goldenRequest[:41], false},
		{"VLAN tag", with(goldenRequest, 12, 0x81, 0x00), false},
		{"IPv6", with(goldenRequest, 12, 0x86, 0xdd), false},
		{"TCP", with(goldenRequest, 23, 6), false},
		{"DNS", with(goldenRequest, 34, 0xc0, 0x00, 0, 53), false},
		{"only the source port", with(goldenRequest, 34, 0, 68, 0, 68), false},
		{"first fragment", with(goldenRequest, 20, 0x20, 0), false},
		{"later fragment", with(goldenRequest, 20, 0, 1), false},
		{"do not fragment", with(goldenRequest, 20, 0x40, 0), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, Interesting(tt.frame)) })
	}
}

func TestMACIsTheFirstStation(t *testing.T) {
	frameFrom := func(mac ...byte) []byte { return join(make([]byte, 6), mac, []byte{0x86, 0xdd}) }
	var w Watch
	assert.Nil(t, w.Snapshot().MAC)
	assert.False(t, w.FromClient(nil))
	assert.False(t, w.FromClient(make([]byte, 13)), "runt")
	assert.False(t, w.FromClient(frameFrom(0, 0, 0, 0, 0, 0)), "zero is no address")
	assert.False(t, w.FromClient(frameFrom(0x33, 0x33, 0, 0, 0, 1)), "multicast is no source")
	assert.True(t, w.FromClient(frameFrom(guestMAC...)), "any kind of frame will do")
	assert.False(t, w.FromClient(frameFrom(serverMAC...)))
	assert.Equal(t, guestMAC, w.Snapshot().MAC)
}

func TestARP(t *testing.T) {
	tests := []struct {
		name  string
		known bool // an address was known before
		frame []byte
		want  netip.Addr
	}{
		{"request", true, arpFrame(1, guestMAC, ip18.As4(), gateway.As4()), ip18},
		{"gratuitous reply", true, arpFrame(2, guestMAC, ip18.As4(), ip18.As4()), ip18},
		{"reply may be for another station", true, arpFrame(2, guestMAC, ip18.As4(), gateway.As4()), ip17},
		{"reply is better than nothing", false, arpFrame(2, guestMAC, ip18.As4(), gateway.As4()), ip18},
		{"probe", true, arpFrame(1, guestMAC, none, ip18.As4()), ip17},
		{"loopback", true, arpFrame(1, guestMAC, [4]byte{127, 0, 0, 1}, none), ip17},
		{"multicast", true, arpFrame(1, guestMAC, [4]byte{224, 0, 0, 251}, none), ip17},
		{"another station behind the client", true, arpFrame(1, serverMAC, ip18.As4(), none), ip17},
		{"reverse ARP", true, arpFrame(3, guestMAC, ip18.As4(), none), ip17},
		{"not IPv4", true, func() []byte {
			f := arpFrame(1, guestMAC, ip18.As4(), none)
			f[16] = 0x09
			return f
		}(), ip17},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w Watch
			before := netip.Addr{}
			w.FromClient(arpFrame(1, guestMAC, none, none))
			if tt.known {
				before = ip17
				require.True(t, w.FromClient(goldenARP))
			}
			assert.Equal(t, tt.want != before, w.FromClient(tt.frame), "changed")
			assert.Equal(t, tt.want, w.Snapshot().IP)
		})
	}
}

func TestDHCPFromClient(t *testing.T) {
	other := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 0x99}
	tests := []struct {
		name   string
		msg    dhcp
		want   Snapshot // MAC apart
		before []byte   // a frame that came first
	}{
		{"discover", dhcp{kind: 1, options: option(12, "box")}, Snapshot{DHCP: DISCOVER, Hostname: "box"}, nil},
		{
			"discover with a wish",
			dhcp{kind: 1, options: option(50, string(ip17.AsSlice()))},
			Snapshot{DHCP: DISCOVER, Wanted: ip17},
			nil,
		},
		{"renew", dhcp{kind: 3, ciaddr: ip17.As4()}, Snapshot{DHCP: REQUEST, Wanted: ip17, IP: ip17}, nil},
		{"inform", dhcp{kind: 8, ciaddr: ip17.As4()}, Snapshot{DHCP: kindInform, IP: ip17}, nil},
		{"release", dhcp{kind: 7, ciaddr: ip17.As4()}, Snapshot{DHCP: RELEASE}, goldenARP},
		{"decline", dhcp{kind: 4, options: option(50, string(ip17.AsSlice()))}, Snapshot{DHCP: DECLINE}, goldenARP},
		{"behind IP options", dhcp{kind: 1, ipOptions: 10}, Snapshot{DHCP: DISCOVER}, nil},
		{"BOOTP", dhcp{options: option(12, "old")}, Snapshot{}, nil},
		{"offer from the client's side", dhcp{kind: 2, options: option(12, "x")}, Snapshot{}, nil},
		{"reply from the client's side", dhcp{kind: 5, reply: true, yiaddr: ip17.As4()}, Snapshot{}, nil},
		{"another station behind the client", dhcp{kind: 3, chaddr: other, ciaddr: ip17.As4()}, Snapshot{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w Watch
			w.FromClient(arpFrame(1, guestMAC, none, none))
			if tt.before != nil {
				w.FromClient(tt.before)
			}
			before := w.Snapshot()
			changed := w.FromClient(tt.msg.frame())
			tt.want.MAC = guestMAC
			assert.Equal(t, tt.want, facts(&w))
			assert.Equal(t, before.IP != tt.want.IP || before.Hostname != tt.want.Hostname, changed)
		})
	}
}

func TestAckToClient(t *testing.T) {
	other := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 0x99}
	tests := []struct {
		name  string
		frame []byte
		want  netip.Addr
	}{
		{"ACK", dhcp{kind: 5, reply: true, yiaddr: ip17.As4()}.frame(), ip17},
		{"offer", dhcp{kind: 2, reply: true, yiaddr: ip17.As4()}.frame(), netip.Addr{}},
		{"NAK", dhcp{kind: 6, reply: true, yiaddr: ip17.As4()}.frame(), netip.Addr{}},
		{"ACK to an inform", dhcp{kind: 5, reply: true}.frame(), netip.Addr{}},
		{"ACK for another station", dhcp{kind: 5, reply: true, chaddr: other, yiaddr: ip17.As4()}.frame(), netip.Addr{}},
		{"another client's request", dhcp{kind: 3, ciaddr: ip17.As4()}.frame(), netip.Addr{}},
		{"ARP by another station", arpFrame(1, serverMAC, gateway.As4(), ip17.As4()), netip.Addr{}},
		{"no frame", nil, netip.Addr{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w Watch
			w.FromClient(arpFrame(1, guestMAC, none, none))
			assert.Equal(t, tt.want.IsValid(), w.ToClient(tt.frame))
			assert.Equal(t, tt.want, w.Snapshot().IP)
			assert.False(t, w.ToClient(tt.frame), "nothing new")
		})
	}
	var w Watch
	assert.False(t, w.ToClient(dhcp{kind: 5, reply: true, yiaddr: ip17.As4()}.frame()), "before the client's first frame")
}

func TestHostnameIsSanitised(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "lima-default", "lima-default"},
		{"dots, digits, capitals, underscore", "VM_1.example.Org", "VM_1.example.Org"},
		{"trailing NUL", "box\x00", "box"},
		{"terminal escape", "a\x1b[31mb\n", "a__31mb_"},
		{"DEL and high bytes", "\x7f\xff", "__"},
		{"64 bytes", strings.Repeat("a", 63) + "b", strings.Repeat("a", 63)},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w Watch
			w.FromClient(dhcp{kind: 1, options: option(12, tt.in)}.frame())
			assert.Equal(t, tt.want, w.Snapshot().Hostname)
		})
	}
}

func TestHostnameStaysAndChanges(t *testing.T) {
	var w Watch
	require.True(t, w.FromClient(dhcp{kind: 1, options: option(12, "one")}.frame()))
	assert.False(t, w.FromClient(dhcp{kind: 3}.frame()), "a message without a name does not take it away")
	assert.Equal(t, "one", w.Snapshot().Hostname)
	assert.True(t, w.FromClient(dhcp{kind: 3, options: option(12, "two")}.frame()))
	assert.Equal(t, "two", w.Snapshot().Hostname)
}

func TestBadOptions(t *testing.T) {
	tests := []struct {
		name    string
		options []byte
		want    string // hostname
	}{
		{"pads in front", join([]byte{0, 0, 0}, option(12, "a")), "a"},
		{"unknown option in front", join(option(224, "zzz"), option(12, "a")), "a"},
		{"behind the end", join([]byte{255}, option(12, "a")), ""},
		{"code without a length", join(option(12, "a"), []byte{61}), "a"},
		{"value cut", join(option(12, "a"), []byte{61, 200, 1}), "a"},
		{"type of two bytes", join(option(53, "\x07\x07"), option(12, "a")), "a"},
		{"address of three bytes", join(option(50, "\x0a\x00\x01"), option(12, "a")), "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w Watch
			f := dhcp{kind: 1, options: tt.options}.frame()
			if tt.name == "code without a length" || tt.name == "value cut" {
				f = f[:len(f)-1] // no end option
				putLengths(f)
			}
			w.FromClient(f)
			assert.Equal(t, tt.want, w.Snapshot().Hostname)
			assert.Equal(t, DISCOVER, w.Snapshot().DHCP)
			assert.False(t, w.Snapshot().Wanted.IsValid())
		})
	}
}

// putLengths makes the IPv4 and UDP lengths fit the frame.
func putLengths(f []byte) {
	f[16], f[17] = byte((len(f)-14)>>8), byte(len(f)-14)
	f[38], f[39] = byte((len(f)-34)>>8), byte(len(f)-34)
}

func TestNotDHCP(t *testing.T) {
	for name, change := range map[string]func(f []byte){
		"hardware is not Ethernet": func(f []byte) { f[43] = 6 },
		"address of 8 bytes":       func(f []byte) { f[44] = 8 },
		"no cookie":                func(f []byte) { f[278]++ },
		"reply to the server":      func(f []byte) { f[42] = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			f := bytes.Clone(goldenRequest)
			change(f)
			var w Watch
			w.FromClient(f)
			assert.Equal(t, Snapshot{MAC: guestMAC}, facts(&w))
		})
	}
}

func TestNoAllocation(t *testing.T) {
	var w Watch
	ack := dhcp{kind: 5, reply: true, yiaddr: ip17.As4()}.frame()
	data := join(guestMAC, serverMAC, []byte{8, 0, 0x45, 0}, make([]byte, 1498))
	w.FromClient(goldenRequest)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		w.FromClient(data)
		w.FromClient(goldenRequest)
		w.FromClient(goldenARP)
		w.ToClient(ack)
		w.ToClient(data)
		Interesting(data)
		w.Snapshot()
		w.Waiting()
	}))
}
