// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// problems are what a daemon says is wrong with it, by code.
func problems(t *testing.T, p *process) map[string]status.Problem {
	t.Helper()
	_, answer, err := control.Ask(t.Context(), p.sock+".d/control", http.MethodGet, "/v1/health")
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

// TestGuestWithoutAddress: who gets no answer is warned of once, and it is a problem until the guest has an address.
func TestGuestWithoutAddress(t *testing.T) {
	t.Parallel()
	p := start(t, "--vmnet-disable-dhcp", "--vmnet-gateway=192.168.106.1")
	g, other := guest(t, p, 1), guest(t, p, 2)
	other.SetAddr(netip.MustParsePrefix("192.168.106.51/24"), netip.MustParseAddr("192.168.106.1"))
	_, err := other.Ping(netip.MustParseAddr("192.168.106.1"), 1)
	require.NoError(t, err)
	assert.NotContains(t, problems(t, p), status.DHCPDisabled)
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

	code, _, stderr := callUpgrade(p.sock)
	require.Zero(t, code, stderr)
	after := problems(t, p)[status.DHCPDisabled]
	assert.Equal(t, one.Clients, after.Clients, "it waits on over an upgrade")
	assert.WithinDuration(t, one.Since, after.Since, time.Second)
	g.SetAddr(netip.MustParsePrefix("192.168.106.50/24"), netip.MustParseAddr("192.168.106.1"))
	_, err = g.Ping(netip.MustParseAddr("192.168.106.1"), 1)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(problems(t, p)[status.DHCPDisabled].Clients) == 0 }, patience, 20*time.Millisecond)
	assert.Equal(t, 1, strings.Count(p.stderr.String(), line), "one line for the whole of it:\n%s", p.stderr)
}

// TestHostileGuestAndHealth: a guest that claims and asks with every frame, for everybody, costs nobody memory, log or the network.
func TestHostileGuestAndHealth(t *testing.T) {
	p := start(t, "--vmnet-disable-dhcp", "--vmnet-gateway=192.168.109.1")
	gateway := netip.MustParseAddr("192.168.109.1")
	victim, evil := guest(t, p, 1), guest(t, p, 2)
	victim.SetAddr(netip.MustParsePrefix("192.168.109.20/24"), gateway)
	_, err := victim.Ping(gateway, 1)
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	m, err := dhcpv4.NewDiscovery(evil.MAC())
	require.NoError(t, err)
	var before int
	const batches = 1000 // of 250 frames
	for i := range batches {
		var frames [][]byte
		for n := range 250 {
			mac := evil.MAC()
			ip := netip.AddrFrom4([4]byte{192, 168, 109, byte(r.Uint32())})
			if n%2 == 0 {
				mac = net.HardwareAddr{2, byte(r.Uint32()), byte(r.Uint32()), 0, 0, 0}
			}
			if n%4 < 2 {
				frames = append(frames, fakeguest.EthernetFrame(fakeguest.Broadcast, mac, fakeguest.TypeARP, fakeguest.ARPPacket(1, mac, ip, fakeguest.Broadcast, ip)))
				continue
			}
			m.ClientHWAddr = mac
			packet := fakeguest.UDPPacket(netip.MustParseAddrPort("0.0.0.0:68"), netip.MustParseAddrPort("255.255.255.255:67"), m.ToBytes())
			frames = append(frames, fakeguest.EthernetFrame(fakeguest.Broadcast, mac, fakeguest.TypeIPv4, packet))
		}
		require.NoError(t, evil.Send(frames...))
		if i == batches/10 {
			before = p.rss(t)
		}
		if i%(batches/10) == 0 {
			_ = problems(t, p)
		}
	}
	assert.Less(t, p.rss(t)-before, 16<<20)
	_, err = victim.Ping(gateway, 2)
	require.NoError(t, err)
	assert.Less(t, strings.Count(p.stderr.String(), "\n"), 100, p.stderr)
}

// rss is how much memory the daemon has, in bytes, 0 where that is not known.
func (p *process) rss(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Process.Pid))
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
