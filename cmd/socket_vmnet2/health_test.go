// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// problems are what a daemon says is wrong with it, by code.
func problems(t *testing.T, p *process) map[string]status.Problem {
	t.Helper()
	_, answer, err := control.Ask(t.Context(), p.sock+".d/control", http.MethodGet, "/v1/health", nil)
	require.NoError(t, err)
	var h control.Health
	require.NoError(t, json.Unmarshal(answer, &h))
	found := map[string]status.Problem{}
	for _, one := range h.Health {
		found[one.Code] = one
	}
	return found
}

// discover has g ask for an address once.
func discover(t *testing.T, g *fakeguest.Guest) {
	t.Helper()
	m, err := dhcpv4.NewDiscovery(g.MAC())
	require.NoError(t, err)
	require.NoError(t, g.SendDHCP(m))
}

// TestGuestWithoutAddress: a guest without an answer is warned of once, and it is a problem until the guest has an address.
func TestGuestWithoutAddress(t *testing.T) {
	t.Parallel()
	p := start(t, "--vmnet-disable-dhcp", "--vmnet-gateway=192.168.106.1")
	g := guest(t, p, 1)
	began := time.Now()
	discover(t, g)
	const line = "a guest gets no address: it asks for one, and this network has no DHCP server"
	p.says(t, line)
	assert.Greater(t, time.Since(began), 4900*time.Millisecond)
	discover(t, g)
	found := problems(t, p)
	require.Contains(t, found, status.DHCPDisabled)
	one := found[status.DHCPDisabled]
	assert.Len(t, one.Clients, 1)
	assert.Contains(t, one.Text, "(02:00:00:00:01:01) asks for an address and has had no answer for")
	assert.Contains(t, one.Text, "this network has no DHCP server: --vmnet-disable-dhcp")
	assert.Contains(t, strings.Join(one.Fix, "\n"), "static address in 192.168.106.0/24")
	assert.NotContains(t, found, status.NoDHCPAnswer)

	g.SetAddr(netip.MustParsePrefix("192.168.106.50/24"), netip.MustParseAddr("192.168.106.1"))
	_, err := g.Ping(netip.MustParseAddr("192.168.106.1"), 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(problems(t, p)[status.DHCPDisabled].Clients) == 0 }, patience, 20*time.Millisecond)
	assert.Equal(t, 1, strings.Count(p.stderr.String(), line), "one line for the whole of it:\n%s", p.stderr)
}
