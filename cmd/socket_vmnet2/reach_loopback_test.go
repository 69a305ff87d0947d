// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// hostAlias is the host's in the embedded network of gatewayFlag.
var hostAlias = netip.MustParseAddr("192.168.105.254")

// TestHostLoopback: a guest reaches what listens on the host's loopback, unless it is kept from the outside or from other guests; and
// then as well if that was asked for.
func TestHostLoopback(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	for _, c := range []struct {
		args string
		want bool
	}{
		{"", true},
		{"--vmnet-disable-nat44", true},
		{"--host-loopback=off", false},
		{"--vmnet-mode=host", false},
		{"--vmnet-mode=host --host-loopback=on", true},
		{"--isolate", false},
		{"--isolate --host-loopback=on", true},
		{"--isolate --vmnet-mode=host --host-loopback=on", true},
	} {
		t.Run(c.args, func(t *testing.T) {
			g := guest(t, start(t, append(strings.Fields(c.args), gatewayFlag)...), 1)
			lease, err := g.Configure()
			require.NoError(t, err)
			g.SetAddr(lease.Addr, gatewayAddr)
			answers := g.Listen(func(f []byte) bool {
				p, err := fakeguest.Parse(f)
				return err == nil && p.ARPOp == fakeguest.ARPReply && p.SrcIP == hostAlias
			})
			ask := fakeguest.ARPPacket(fakeguest.ARPRequest, g.MAC(), g.Addr().Addr(), make(net.HardwareAddr, 6), hostAlias)
			require.NoError(t, g.Send(fakeguest.EthernetFrame(fakeguest.Broadcast, g.MAC(), fakeguest.TypeARP, ask)))
			_, err = g.Resolve(gatewayAddr) // what was asked before is answered before
			require.NoError(t, err)
			_, err = answers.Next(0)
			require.Equal(t, c.want, err == nil, "somebody has the address")
			if !c.want {
				return
			}
			flags, err := g.ExchangeSYN(netip.AddrPortFrom(hostAlias, ln.Addr().(*net.TCPAddr).AddrPort().Port()))
			require.NoError(t, err)
			assert.Zero(t, flags&fakeguest.TCPRst)
		})
	}
}

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
