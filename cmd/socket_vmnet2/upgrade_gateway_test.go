// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

// TestUpgradeKeepsTheGateway: its process goes on through upgrades, and so do the connections of guests to
// the host: what comes back is from the same port of the host.
func TestUpgradeKeepsTheGateway(t *testing.T) {
	t.Parallel()
	if onSimulator() {
		return // it has none
	}
	p, path := startOwn(t, gatewayFlag)
	g := guest(t, p, 1)
	lease, err := g.Configure()
	require.NoError(t, err)
	g.SetAddr(lease.Addr, gatewayAddr)
	host, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer host.Close()
	to := netip.AddrPortFrom(hostAlias, host.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	mac, err := g.Resolve(gatewayAddr)
	require.NoError(t, err)
	exchange := func(text string) netip.AddrPort {
		answers := g.Listen(func(f []byte) bool {
			p, err := fakeguest.Parse(f)
			return err == nil && p.Proto == fakeguest.ProtoUDP && string(p.Data) == text
		})
		from := netip.AddrPortFrom(g.Addr().Addr(), 1000)
		require.NoError(t, g.Send(fakeguest.EthernetFrame(mac, g.MAC(), fakeguest.TypeIPv4, fakeguest.UDPPacket(from, to, []byte(text)))))
		buf := make([]byte, 100)
		require.NoError(t, host.SetReadDeadline(time.Now().Add(patience)))
		n, source, err := host.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.Equal(t, text, string(buf[:n]))
		_, err = host.WriteToUDPAddrPort(buf[:n], source)
		require.NoError(t, err)
		_, err = answers.Next(patience)
		require.NoError(t, err)
		return source
	}
	source := exchange("before")
	before, _ := p.status(t)
	gateway := before.Network.Usernet.Gateway
	require.NotZero(t, gateway.PID)
	for round := range 6 {
		replaceProgram(t, path)
		r, stderr, err := p.upgrade(t)
		require.NoError(t, err, stderr)
		assert.Empty(t, r.Notes)
		assert.Equal(t, source, exchange(fmt.Sprint("after upgrade ", round)), "the same connection")
	}
	after, _ := p.status(t)
	assert.Equal(t, gateway.PID, after.Network.Usernet.Gateway.PID)
	assert.Zero(t, after.Network.Usernet.Gateway.Restarts)
}
