// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

func addrOf(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

func TestPlan(t *testing.T) {
	tests := []struct {
		name           string
		gateway, end   string
		bits           int
		subnet, alias  string
		first, last    string // of the DHCP range
		mode           network.Mode
		disable, netID bool
	}{
		{name: "default", subnet: "192.168.105.0/24", alias: "192.168.105.254", first: "192.168.105.2", last: "192.168.105.253"},
		{name: "short range", gateway: "10.0.0.1", end: "10.0.0.9", subnet: "10.0.0.0/24", alias: "10.0.0.254", first: "10.0.0.2", last: "10.0.0.9"},
		{name: "gateway in the middle", gateway: "10.0.0.100", subnet: "10.0.0.0/24", alias: "10.0.0.254", first: "10.0.0.101", last: "10.0.0.253"},
		{name: "gateway at the top", gateway: "10.0.0.254", subnet: "10.0.0.0/24", alias: "10.0.0.253", first: "10.0.0.1", last: "10.0.0.252"},
		{name: "/8", gateway: "10.0.0.1", bits: 8, subnet: "10.0.0.0/8", alias: "10.255.255.254", first: "10.0.0.2", last: "10.0.0.254"},
		{name: "/16, far end", gateway: "172.20.0.1", end: "172.20.255.254", bits: 16, subnet: "172.20.0.0/16", alias: "172.20.255.254", first: "172.20.0.2", last: "172.20.255.253"},
		{name: "/16, gateway above .254", gateway: "172.20.3.254", bits: 16, subnet: "172.20.0.0/16", alias: "172.20.255.254", first: "172.20.3.255", last: "172.20.255.253"},
		{name: "/28", gateway: "10.0.0.17", bits: 28, subnet: "10.0.0.16/28", alias: "10.0.0.30", first: "10.0.0.18", last: "10.0.0.29"},
		{name: "/29", gateway: "10.0.0.1", bits: 29, subnet: "10.0.0.0/29", alias: "10.0.0.6", first: "10.0.0.2", last: "10.0.0.5"},
		{name: "/30 has no alias", gateway: "10.0.0.1", bits: 30, subnet: "10.0.0.0/30", first: "10.0.0.2", last: "10.0.0.2"},
		{name: "/30, gateway second", gateway: "10.0.0.2", bits: 30, subnet: "10.0.0.0/30", first: "10.0.0.1", last: "10.0.0.1"},
		{name: "end is the broadcast address", gateway: "10.0.0.1", end: "10.0.0.255", subnet: "10.0.0.0/24", alias: "10.0.0.254", first: "10.0.0.2", last: "10.0.0.253"},
		{name: "end is the alias", gateway: "10.0.0.1", end: "10.0.0.254", subnet: "10.0.0.0/24", alias: "10.0.0.254", first: "10.0.0.2", last: "10.0.0.253"},
		{name: "no DHCP", disable: true, subnet: "192.168.105.0/24", alias: "192.168.105.254"},
		{name: "host mode", mode: network.ModeHost, subnet: "192.168.105.0/24", alias: "192.168.105.254", first: "192.168.105.2", last: "192.168.105.253"},
		{name: "host mode, identifier", mode: network.ModeHost, netID: true, subnet: "192.168.105.0/24", alias: "192.168.105.254"},
		{name: "shared mode, identifier", netID: true, subnet: "192.168.105.0/24", alias: "192.168.105.254", first: "192.168.105.2", last: "192.168.105.253"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Config{Mode: tt.mode, Gateway: addrOf(tt.gateway), DHCPEnd: addrOf(tt.end), PrefixLen: tt.bits, DisableDHCP: tt.disable}
			if o.Mode == "" {
				o.Mode = network.ModeShared
			}
			if tt.netID {
				o.NetworkIdentifier = "12345678-1234-1234-1234-123456789abc"
			}
			p, err := o.Plan()
			require.NoError(t, err)
			assert.Equal(t, tt.subnet, p.Subnet.String())
			assert.Equal(t, addrOf(tt.alias), p.Alias)
			assert.Equal(t, addrOf(tt.first), p.DHCPStart)
			assert.Equal(t, addrOf(tt.last), p.DHCPEnd)
			assert.NoError(t, p.checkGuest(p.LastGuest()), "told as the end without DHCP")
		})
	}
	_, err := Config{Mode: network.ModeBridged}.Plan()
	assert.ErrorIs(t, err, ErrBridged)
}

// TestIdentity: the gateway's addresses are the same in every life of a network, and others in another network.
func TestIdentity(t *testing.T) {
	plan := func(gw string) Plan {
		p, err := Config{Mode: network.ModeShared, Gateway: addrOf(gw)}.Plan()
		require.NoError(t, err)
		return p
	}
	a, b := plan("10.0.0.1"), plan("10.0.1.1")
	assert.Equal(t, a, plan("10.0.0.1"))
	assert.NotEqual(t, a.MAC, b.MAC)
	assert.NotEqual(t, a.ID, b.ID)
	assert.Equal(t, byte(2), a.MAC[0]&3, "locally administered, individual")
	assert.Regexp(t, `^[0-9A-F]{8}-[0-9A-F]{4}-8[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}$`, network.IDText(a.ID))
}

// TestTarget is where flows lead; TestRefused shows the same on the wire.
func TestTarget(t *testing.T) {
	plans := map[string]Plan{}
	for name, o := range map[string]Config{
		"shared": {Mode: network.ModeShared}, "host": {Mode: network.ModeHost}, "no NAT": {Mode: network.ModeShared, DisableNAT44: true}, "ports": {Mode: network.ModeHost, LoopbackPorts: []uint16{1, 80}},
	} {
		p, err := o.Plan()
		require.NoError(t, err)
		plans[name] = p
	}
	tests := []struct {
		name, dst    string
		shared, host string // empty = refused
	}{
		{"alias", "192.168.105.254:80", "127.0.0.1:80", "127.0.0.1:80"},
		{"outside", "8.8.8.8:53", "8.8.8.8:53", ""},
		{"private outside", "10.0.0.5:22", "10.0.0.5:22", ""},
		{"neighbouring subnet", "192.168.106.1:22", "192.168.106.1:22", ""},
		{"port 0", "8.8.8.8:0", "", ""},
		{"alias, port 0", "192.168.105.254:0", "", ""},
		{"gateway", "192.168.105.1:22", "", ""},
		{"a guest", "192.168.105.7:22", "", ""},
		{"network address", "192.168.105.0:22", "", ""},
		{"subnet broadcast", "192.168.105.255:22", "", ""},
		{"loopback", "127.0.0.1:22", "", ""},
		{"unspecified", "0.0.0.0:22", "", ""},
		{"0/8", "0.1.1.1:22", "", ""},
		{"link-local", "169.254.169.254:80", "", ""},
		{"multicast", "224.0.0.251:5353", "", ""},
		{"class E", "240.0.0.1:22", "", ""},
		{"broadcast", "255.255.255.255:22", "", ""},
		{"IPv6", "[2001:db8::1]:22", "", ""},
		{"IPv4 in IPv6", "[::ffff:127.0.0.1]:22", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, want := range map[string]string{"shared": tt.shared, "host": tt.host, "no NAT": tt.host, "ports": tt.host} {
				p := plans[name]
				got, ok := p.target(netip.MustParseAddrPort(tt.dst))
				assert.Equal(t, want != "", ok, name)
				if ok {
					assert.Equal(t, want, got.String(), name)
				}
			}
		})
	}
	_, ok := new(Plan{Alias: aliasIP, ports: []uint16{80}}).target(netip.AddrPortFrom(aliasIP, 81))
	assert.False(t, ok)
	t.Run("no alias", func(t *testing.T) {
		p, err := Config{Mode: network.ModeHost, Gateway: addrOf("10.0.0.1"), PrefixLen: 30}.Plan()
		require.NoError(t, err)
		_, ok := p.target(netip.AddrPortFrom(netip.Addr{}, 80))
		assert.False(t, ok)
	})
}

// TestPrivate: no guest is led to the private port, under whatever name it has for the host; everything beside it is as before. TestMetricsAreNotForGuests
// has it on the wire.
func TestPrivate(t *testing.T) {
	own := loopback4 // if this host has no other address
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
		to       netip.Addr // the target
		port     uint16
		private  bool
	}{
		{"loopback", "127.0.0.1:9105", loopback4, port, true},
		{"loopback, another port", "127.0.0.1:9105", loopback4, port + 1, false},
		{"loopback, another target", "127.0.0.1:9105", outside, port, false},
		{"another address of loopback", "127.0.0.2:9105", loopback4, port, false},
		{"IPv6 loopback", "[::1]:9105", loopback4, port, false},
		{"an address of the host", "203.0.113.9:9105", outside, port, true},
		{"an address of the host, by loopback", "203.0.113.9:9105", loopback4, port, false},
		{"an address of the host, in IPv6", "[::ffff:203.0.113.9]:9105", outside, port, true},
		{"all, by loopback", "0.0.0.0:9105", loopback4, port, true},
		{"all, by loopback, in IPv6", "[::]:9105", loopback4, port, true},
		{"all, by the host's own", "0.0.0.0:9105", own, port, true},
		{"all, another port", "0.0.0.0:9105", loopback4, port + 1, false},
		{"all, another target", "0.0.0.0:9105", outside, port, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := Plan{private: netip.MustParseAddrPort(tt.at)}
			assert.Equal(t, tt.private, p.leadsToPrivate(netip.AddrPortFrom(tt.to, tt.port)))
		})
	}
}
