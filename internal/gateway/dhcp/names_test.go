// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leaseAs gets client n an address under a name.
func (r *rig) leaseAs(n int, hostname string) string {
	r.t.Helper()
	return r.leaseFrom(uint64(n), n, dhcpv4.WithOption(dhcpv4.OptHostName(hostname)))
}

// names is "name=last byte of the address" of all guests that have one, by address.
func (r *rig) names() string {
	var out []string
	for _, l := range slices.SortedFunc(maps.Values(r.srv.pool.byIP), func(a, b *lease) int { return a.ip.Compare(b.ip) }) {
		if l.name == "" || !l.leased(r.elapsed) {
			continue
		}
		ip, ok := r.srv.Lookup(l.name)
		require.True(r.t, ok, l.name)
		require.Equal(r.t, l.ip, ip)
		require.Equal(r.t, l.name, r.srv.NameOf(l.ip))
		out = append(out, l.name+strings.TrimPrefix(l.ip.String(), "192.168.105"))
	}
	return strings.Join(out, " ")
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	type guest struct {
		n    int
		name string
	}
	for _, tt := range []struct {
		name   string
		guests []guest
		want   string
	}{
		{"one", []guest{{1, "web"}}, "web.2"},
		{"lower case and the first label", []guest{{1, "Web.Example.COM"}}, "web.2"},
		{"one that ends with zeroes, as in old DHCP clients", []guest{{1, "web\x00"}}, "web.2"},
		{"two", []guest{{1, "web"}, {2, "web"}, {3, "WEB"}}, "web.2 web-2.3 web-3.4"},
		{"a number that is a name", []guest{{1, "web-2"}, {2, "web"}, {3, "web"}}, "web-2.2 web.3 web-3.4"},
		{"renewed", []guest{{1, "web"}, {2, "web"}, {2, "web"}, {1, "web"}}, "web.2 web-2.3"},
		{"renamed", []guest{{1, "web"}, {1, "db"}, {2, "web"}}, "db.2 web.3"},
		{"renamed to what looks like a number", []guest{{1, "web"}, {2, "web"}, {2, "web-2"}}, "web.2 web-2.3"},
		{"none", []guest{{1, ""}, {2, "a_b"}, {3, "-a"}, {4, "\x1b[31mred"}, {5, "ü"}, {6, "a b"}}, ""},
		{"not for guests", []guest{{1, "localhost"}, {2, "HOST"}, {3, "gateway"}, {4, "wpad"}, {5, "isatap"}}, ""},
		{"of a record", []guest{{1, "taken"}, {2, "taken"}}, "taken-2.2 taken-3.3"},
		{"too long with a number", []guest{{1, long}, {2, long}}, long + ".2 " + long[:61] + "-2.3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "192.168.105.20")
			r.cfg.NamesTaken = map[string]bool{"taken": true}
			r.restart()
			for _, g := range tt.guests {
				r.leaseAs(g.n, g.name)
			}
			assert.Equal(t, tt.want, r.names())
			r.restart()
			assert.Equal(t, tt.want, r.names(), "after a restart")
		})
	}
}

// TestNamesEnd: a name goes with its lease, and is kept from others only while a guest has it.
func TestNamesEnd(t *testing.T) {
	r := newRig(t, "192.168.105.20")
	ip := r.leaseAs(1, "web")
	r.leaseAs(2, "web")
	assert.Equal(t, "web.2 web-2.3", r.names())
	r.tell(1, release, ciaddr(ip))
	assert.Equal(t, "web-2.3", r.names())
	_, ok := r.srv.Lookup("web")
	assert.False(t, ok, "released")
	assert.Empty(t, r.srv.NameOf(netip.MustParseAddr(ip)))

	r.leaseAs(1, "web")
	assert.Equal(t, "web.2 web-2.3", r.names(), "it is back")

	r.pass(LeaseTime / 2)
	r.leaseAs(2, "web")
	r.pass(LeaseTime / 2)
	assert.Equal(t, "web-2.3", r.names(), "expired")
	r.leaseAs(3, "web")
	assert.Equal(t, "web-2.3 web.4", r.names(), "another guest's now")
	r.restart()
	assert.Equal(t, "web-2.3 web.4", r.names())
	r.leaseAs(1, "web")
	assert.Equal(t, "web-3.2 web-2.3 web.4", r.names())

	r.leaseAs(3, "web") // where it is is known again
	r.tell(3, decline, wish("192.168.105.4"))
	assert.Equal(t, "web-3.2 web-2.3", r.names(), "declined")
}

// TestNamesAreFew: as many guests of one name as a network can have cost no more than a moment each.
func TestNamesAreFew(t *testing.T) {
	r := newRig(t, "192.168.105.20")
	r.cfg.Subnet, r.cfg.Last = netip.MustParsePrefix("192.168.0.0/16"), netip.MustParseAddr("192.168.200.1")
	r.srv = New(r.cfg)
	for n := 1; n <= 1000; n++ {
		r.leaseAs(n, "web")
	}
	named := 0
	for _, l := range r.srv.pool.byIP {
		if l.name != "" {
			named++
		}
	}
	assert.Equal(t, maxNumber, named)
}

func TestUsage(t *testing.T) {
	r := newRig(t, "192.168.105.254")
	_, size, leased := r.srv.Stats()
	assert.Equal(t, [2]int{252, 0}, [2]int{size, leased}, "2 to 253; 254 is reserved")

	r = newRig(t, "192.168.105.5")
	r.cfg.Fixed = map[[6]byte]netip.Addr{
		[6]byte(mac(8)): netip.MustParseAddr("192.168.105.5"), [6]byte(mac(9)): netip.MustParseAddr("192.168.105.99"),
	}
	r.restart()
	usage := func() [2]int { _, size, leased := r.srv.Stats(); return [2]int{size, leased} }
	assert.Equal(t, [2]int{3, 0}, usage())
	r.tell(1, discover)
	assert.Equal(t, [2]int{3, 1}, usage(), "offered")
	r.pass(offerTime)
	assert.Equal(t, [2]int{3, 0}, usage(), "the offer has ended")
	r.lease(1)
	r.leaseAs(9, "nine")
	assert.Equal(t, [2]int{3, 1}, usage(), "one of them reserved")
	ip := r.lease(2)
	r.tell(2, decline, wish(ip))
	r.lease(2)
	assert.Equal(t, [2]int{3, 3}, usage(), "one is in quarantine")
	assert.Empty(t, r.tell(3, discover), "none left")
	r.pass(LeaseTime + quarantineTime)
	assert.Equal(t, [2]int{3, 0}, usage(), "all over")
}

// TestDomain: guests are told where to look up short names.
func TestDomain(t *testing.T) {
	r := newRig(t, "192.168.105.20")
	r.cfg.Domain = "vmnet.internal"
	r.srv = New(r.cfg)
	reply, ok := r.srv.Handle(1, mac(1), message(1, discover).ToBytes())
	require.True(t, ok)
	m, err := dhcpv4.FromBytes(reply.Payload)
	require.NoError(t, err)
	assert.Equal(t, "vmnet.internal", m.DomainName())
	assert.Equal(t, []string{"vmnet.internal"}, m.DomainSearch().Labels)
}
