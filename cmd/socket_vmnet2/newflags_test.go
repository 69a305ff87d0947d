// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

const gatewayFlag = "--vmnet-gateway=192.168.105.1"

var gatewayAddr = netip.MustParseAddr("192.168.105.1")

// TestOptionsReachTheNetwork: an address that is reserved, guests that are kept from each other, and no way out. What the
// three are in detail is tested where they are made: packages dhcp, bridge and gateway; which ones come with others in package compat.
func TestOptionsReachTheNetwork(t *testing.T) {
	p := start(t, gatewayFlag, "--isolate", "--vmnet-disable-nat44", "--vmnet-reserve=02:00:00:00:01:03=192.168.105.99")
	a, b := guest(t, p, 3), guest(t, p, 2)
	for g, want := range map[*fakeguest.Guest]string{a: "192.168.105.99/24", b: "192.168.105.2/24"} {
		lease, err := g.Configure()
		require.NoError(t, err)
		assert.Equal(t, want, lease.Addr.String())
		assert.False(t, lease.Gateway.IsValid(), "a default route only where it leads somewhere")
		g.SetAddr(lease.Addr, gatewayAddr)
		_, err = g.Ping(gatewayAddr, 1)
		require.NoError(t, err)
	}
	_, err := guest(t, p, 5).Reboot(netip.MustParseAddr("192.168.105.99"))
	assert.ErrorIs(t, err, fakeguest.ErrNAK, "no other guest gets it by asking")

	heard := b.Listen(func(f []byte) bool { return [6]byte(f[6:12]) == [6]byte(a.MAC()) })
	for _, dst := range []net.HardwareAddr{b.MAC(), fakeguest.Broadcast, {0x33, 0x33, 0, 0, 0, 1}, {2, 7, 7, 7, 7, 7}} {
		require.NoError(t, a.Send(fakeguest.EthernetFrame(dst, a.MAC(), fakeguest.TypeTest, []byte("to another guest"))))
	}
	for _, g := range []*fakeguest.Guest{a, b} {
		_, err = g.Ping(gatewayAddr, 2)
		require.NoError(t, err, "all has gone through")
	}
	assert.Empty(t, heard.Collect(200*time.Millisecond), "it would be there by now")

	loopback := a.Listen(func(f []byte) bool {
		p, err := fakeguest.Parse(f)
		return err == nil && p.ARPOp == fakeguest.ARPReply && p.SrcIP == hostAlias
	})
	ask := fakeguest.ARPPacket(fakeguest.ARPRequest, a.MAC(), a.Addr().Addr(), make(net.HardwareAddr, 6), hostAlias)
	require.NoError(t, a.Send(fakeguest.EthernetFrame(fakeguest.Broadcast, a.MAC(), fakeguest.TypeARP, ask)))
	_, err = a.Resolve(gatewayAddr) // what was asked before is answered before
	require.NoError(t, err)
	_, err = loopback.Next(0)
	require.Error(t, err, "nor to this host's loopback: --isolate")

	flags, err := a.ExchangeSYN(netip.MustParseAddrPort("198.51.100.1:80"))
	require.NoError(t, err)
	assert.NotZero(t, flags&fakeguest.TCPRst, "there is no way out")
}

// hostAlias is the host's in the embedded network of gatewayFlag.
var hostAlias = netip.MustParseAddr("192.168.105.254")

// TestMetricsAreNotForGuests: they tell of all other guests. That holds after an upgrade too, and other ports are reached.
func TestMetricsAreNotForGuests(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	p, path := startOwn(t, gatewayFlag, "--metrics-listen=127.0.0.1:0")
	g := guest(t, p, 1)
	lease, err := g.Configure()
	require.NoError(t, err)
	g.SetAddr(lease.Addr, gatewayAddr)
	check := func() {
		at := netip.MustParseAddrPort(p.metricsAddr(t))
		flags, err := g.ExchangeSYN(netip.AddrPortFrom(hostAlias, at.Port()))
		require.NoError(t, err)
		assert.NotZero(t, flags&fakeguest.TCPRst)
		flags, err = g.ExchangeSYN(netip.AddrPortFrom(hostAlias, ln.Addr().(*net.TCPAddr).AddrPort().Port()))
		require.NoError(t, err)
		assert.Zero(t, flags&fakeguest.TCPRst)
		assert.Contains(t, p.scrape(t, at.String()), "socket_vmnet2_clients", "this host's programs have them")
	}
	check()
	replaceProgram(t, path)
	_, stderr, err := p.upgrade(t)
	require.NoError(t, err, stderr)
	check()
}

// scrape is the daemon's metrics at an address.
func (p *process) scrape(t *testing.T, addr string) string {
	t.Helper()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get("http://" + addr + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(b))
	assert.True(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"), resp.Header)
	return string(b)
}

// metric is the value of a series in a scrape, -1 if there is none.
func metric(t *testing.T, scrape, series string) float64 {
	t.Helper()
	for line := range strings.Lines(scrape) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			require.NoError(t, err)
			return v
		}
	}
	return -1
}

// metricsAddr is where the daemon says that its metrics are.
func (p *process) metricsAddr(t *testing.T) string {
	t.Helper()
	re := regexp.MustCompile(`metrics can be read url=http://(\S+)/metrics`)
	require.Eventually(t, func() bool { return re.MatchString(p.stderr.String()) }, patience, time.Millisecond)
	return re.FindStringSubmatch(p.stderr.String())[1]
}

// TestGuestWithoutAddress: a guest without an answer is warned of once, and it is a problem until the guest has an address.
func TestGuestWithoutAddress(t *testing.T) {
	t.Parallel()
	p := start(t, "--vmnet-disable-dhcp", "--vmnet-gateway=192.168.106.1")
	g := guest(t, p, 1)
	discover := func() {
		m, err := dhcpv4.NewDiscovery(g.MAC())
		require.NoError(t, err)
		require.NoError(t, g.SendDHCP(m))
	}
	began := time.Now()
	discover()
	const line = "a guest gets no address: it asks for one, and this network has no DHCP server"
	p.says(t, line)
	assert.Greater(t, time.Since(began), 4900*time.Millisecond)
	discover()
	none := func(one status.Problem) bool { return one.Code == status.DHCPDisabled }
	s, _ := p.status(t)
	i := slices.IndexFunc(s.Health, none)
	require.GreaterOrEqual(t, i, 0)
	one := s.Health[i]
	assert.Len(t, one.Clients, 1)
	assert.Contains(t, one.Text, "(02:00:00:00:01:01) asks for an address and has had no answer for")
	assert.Contains(t, one.Text, "this network has no DHCP server: --vmnet-disable-dhcp")
	assert.Contains(t, strings.Join(one.Fix, "\n"), "static address in 192.168.106.0/24")

	g.SetAddr(netip.MustParsePrefix("192.168.106.50/24"), netip.MustParseAddr("192.168.106.1"))
	_, err := g.Ping(netip.MustParseAddr("192.168.106.1"), 1)
	require.NoError(t, err)
	p.describes(t, func(s status.Status) bool { return !slices.ContainsFunc(s.Health, none) })
	assert.Equal(t, 1, strings.Count(p.stderr.String(), line), "one line for the whole of it:\n%s", p.stderr)
}
