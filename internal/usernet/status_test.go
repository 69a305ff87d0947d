// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"encoding/json"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

func TestStatus(t *testing.T) {
	port := vnettest.FreePort(t)
	n := start(t, Options{
		Mode: vnet.ModeHost, DHCPEnd: netip.MustParseAddr("192.168.105.9"), Gateway: gatewayIP,
		Forwards: []vnet.Forward{{Proto: "tcp", HostPort: port, Guest: netip.MustParseAddrPort("192.168.105.2:80")}},
	}, tuning{})
	g := attach(t, n, fakeguest.Options{Name: "Web"})
	_, err := g.Configure()
	require.NoError(t, err)
	_, err = g.Ping(gatewayIP, 1)
	require.NoError(t, err)

	d, u := n.Status()
	require.Len(t, d.Leases, 1)
	l := d.Leases[0]
	assert.WithinDuration(t, time.Now().Add(time.Hour), l.Expires, time.Minute)
	l.Expires = time.Time{}
	assert.Equal(t, status.Lease{IP: netip.MustParseAddr("192.168.105.2"), MAC: g.MAC().String(), Hostname: "Web", Name: "web.vmnet.internal"}, l)
	assert.Equal(t, "192.168.105.2", d.Start.String())
	assert.Equal(t, [2]int{8, 1}, [2]int{d.Size, d.Leased})
	assert.Equal(t, map[string]uint64{"malformed": 0, "foreign": 0, "port_full": 0, "pool_full": 0}, d.Unanswered)
	host := netip.AddrPortFrom(loopback4, port).String()
	assert.Equal(t, []status.Forward{{Proto: "tcp", Host: host, Guest: "192.168.105.2:80"}}, u.Forwards)
	assert.Len(t, u.Drops, 5)

	n.fwd.all[0].fail(syscall.EMFILE)
	_, u = n.Status()
	assert.Equal(t, "too many open files", u.Forwards[0].Error)
	c, err := net.Dial("tcp4", host)
	require.NoError(t, err)
	defer c.Close()
	require.Eventually(t, func() bool { _, u := n.Status(); return u.Forwards[0].Error == "" }, patience, 10*time.Millisecond)

	require.NoError(t, n.Close())
	_, _ = n.Status()
}

// TestStatusOfLittle: lists are never null, and there is no DHCP where there is none.
func TestStatusOfLittle(t *testing.T) {
	d, u := start(t, Options{DisableDHCP: true}, tuning{}).Status()
	assert.Nil(t, d)
	b, err := json.Marshal(u)
	require.NoError(t, err)
	assert.NotContains(t, string(b), "null")
	d, _ = start(t, Options{}, tuning{}).Status()
	assert.NotNil(t, d.Leases)
}

// TestNames: guests find each other by the names they tell the DHCP server, and nobody else is asked for these. Guests that may not
// reach each other do not hear of each other either.
func TestNames(t *testing.T) {
	taken := netip.MustParseAddr("10.9.8.7")
	for _, isolate := range []bool{false, true} {
		n := start(t, Options{
			Isolate: isolate, ResolvConf: "/nonexistent/resolv.conf", DNSRecords: map[string]netip.Addr{"Taken.vmnet.internal.": taken},
		}, tuning{})
		asker := newIPGuest(t, n, mac1, netip.MustParseAddr("192.168.105.200"))
		for _, name := range [][2]string{{"web", "web"}, {"Web", "web-2"}, {"taken", "taken-2"}} {
			l, err := attach(t, n, fakeguest.Options{Name: name[0]}).Configure()
			require.NoError(t, err)
			m := resolve(t, asker, name[1]+".vmnet.internal.", false)
			if isolate {
				assert.Equal(t, dns.RcodeNameError, m.Rcode, name)
				continue
			}
			require.Len(t, m.Answer, 1, name)
			assert.Equal(t, l.Addr.Addr().String(), m.Answer[0].(*dns.A).A.String(), name)
		}
		d, _ := n.Status()
		assert.Equal(t, "web.vmnet.internal", d.Leases[0].Name)
		assert.Equal(t, taken.String(), resolve(t, asker, "taken.vmnet.internal.", true).Answer[0].(*dns.A).A.String())
		assert.Equal(t, dns.RcodeNameError, resolve(t, asker, "nobody.vmnet.internal.", false).Rcode)
	}
}
