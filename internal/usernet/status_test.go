// SPDX-License-Identifier: Apache-2.0

package usernet

import (
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

// TestNames: guests find each other by the names they tell the DHCP server, and nobody else is asked for these. Guests that may not
// reach each other do not hear of each other either. Our own names and the records are known to both, over UDP and TCP.
func TestNames(t *testing.T) {
	for _, isolate := range []bool{false, true} {
		n := start(t, Options{
			Isolate: isolate, ResolvConf: "/nonexistent/resolv.conf",
			DNSRecords: map[string]netip.Addr{"Taken.vmnet.internal.": netip.MustParseAddr("10.9.8.7")},
		}, tuning{})
		asker := newIPGuest(t, n, mac1, netip.MustParseAddr("192.168.105.200"))
		want := map[string]string{
			"gateway.internal.": "192.168.105.1", "host.internal.": "192.168.105.254", "taken.vmnet.internal.": "10.9.8.7",
		}
		for _, name := range [][2]string{{"web", "web"}, {"Web", "web-2"}, {"taken", "taken-2"}} {
			l, err := attach(t, n, fakeguest.Options{Name: name[0]}).Configure()
			require.NoError(t, err)
			if name := name[1] + ".vmnet.internal."; !isolate {
				want[name] = l.Addr.Addr().String()
			} else {
				assert.Equal(t, dns.RcodeNameError, resolve(t, asker, name, false).Rcode, name)
			}
		}
		d, _ := n.Status()
		assert.Equal(t, "web.vmnet.internal", d.Leases[0].Name)
		for name, ip := range want {
			for _, tcp := range []bool{false, true} {
				m := resolve(t, asker, name, tcp)
				require.Len(t, m.Answer, 1, name)
				assert.Equal(t, ip, m.Answer[0].(*dns.A).A.String(), name)
			}
		}
		assert.Equal(t, dns.RcodeNameError, resolve(t, asker, "nobody.vmnet.internal.", false).Rcode)
		assert.Equal(t, dns.RcodeServerFailure, resolve(t, asker, "example.com.", false).Rcode)
	}
	_, err := New(Options{Mode: vnet.ModeShared, DNSRecords: map[string]netip.Addr{"a..b": gatewayIP}})
	assert.ErrorContains(t, err, "a..b")
}
