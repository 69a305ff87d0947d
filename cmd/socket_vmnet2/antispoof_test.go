// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// forgedArrive are the names of those of forged that reach the listener when f sends them. A last frame, which is not forged, shows that
// whatever was to come has come.
func forgedArrive(t *testing.T, f *fakeguest.Guest, forged map[string][]byte, l *fakeguest.Listener) (names []string) {
	t.Helper()
	for _, b := range forged {
		require.NoError(t, f.Send(b))
	}
	last := testFrame(fakeguest.Broadcast, f.MAC(), "that was all")
	require.NoError(t, f.Send(last))
	for {
		got, err := l.Next(patience)
		require.NoError(t, err, "the last frame is missing")
		if bytes.HasPrefix(got, last) {
			return names
		}
		for name, b := range forged {
			if bytes.HasPrefix(got, b) {
				names = append(names, name)
			}
		}
	}
}

// TestForgeries: with --anti-spoof nothing forged arrives, by whatever way the forger is connected, and after upgrades as before: the
// next program knows which client holds which address, leased or not, and what was dropped. What is forged is tested in package antispoof.
func TestForgeries(t *testing.T) {
	p := startOpen(t, "--anti-spoof")
	leased, static, witness := over(t, p.stream()), over(t, p.connected()), over(t, p.stream())
	lease, err := leased.Configure()
	require.NoError(t, err)
	static.SetAddr(netip.MustParsePrefix("192.168.105.77/24"), gatewayAddr)
	guests := []*fakeguest.Guest{leased, static}
	var forgers []*fakeguest.Guest
	for _, way := range []vnettest.Transport{p.stream(), p.unconnected(), p.attach(proto.Datagram), p.adopt(proto.Stream, true)} {
		f := over(t, way)
		_, err := f.Configure()
		require.NoError(t, err, way.Name)
		guests, forgers = append(guests, f), append(forgers, f)
	}
	look := func() {
		for _, g := range guests {
			require.Eventually(t, func() bool { _, err := g.Ping(gatewayAddr, 56); return err == nil }, patience, time.Millisecond, "%s", g.MAC())
		}
		for _, f := range forgers {
			introduce(t, f, witness)
			forged := map[string][]byte{}
			for name, victim := range map[string]*fakeguest.Guest{"leased": leased, "static": static} {
				ip := victim.Addr().Addr()
				forged["MAC, "+name] = testFrame(fakeguest.Broadcast, victim.MAC(), "forged")
				forged["ARP, "+name] = fakeguest.EthernetFrame(fakeguest.Broadcast, f.MAC(), fakeguest.TypeARP,
					fakeguest.ARPPacket(fakeguest.ARPReply, f.MAC(), ip, fakeguest.Broadcast, ip))
			}
			heard := witness.Listen(nil)
			assert.Empty(t, forgedArrive(t, f, forged, heard))
			heard.Close()
		}
	}
	look()
	for range 2 {
		_, stderr, err := p.upgrade(t)
		require.NoError(t, err, stderr)
		look()
	}
	_, err = leased.Renew(lease)
	assert.NoError(t, err)
	for _, f := range forgers {
		f.Close()
	}
	require.Eventually(t, func() bool { return strings.Count(p.stderr.String(), "drop_spoofed=12 ") == 4 }, patience, 10*time.Millisecond, "%s", p.stderr)
	assert.Contains(t, p.stderr.String(), "frames with forged addresses are dropped")
}
