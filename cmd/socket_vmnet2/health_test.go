// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

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
