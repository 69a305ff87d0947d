// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/netip"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

const gatewayFlag = "--vmnet-gateway=192.168.105.1"

var gatewayAddr = netip.MustParseAddr("192.168.105.1")

func TestReservedAddressIsKept(t *testing.T) {
	dir := stateRoot(t)
	sock := filepath.Join(t.TempDir(), "s")
	run := func(more ...string) *process {
		p := launch(t, "socket_vmnet2", sock, append([]string{gatewayFlag, "--state-dir=" + dir}, more...)...)
		p.ready(t)
		return p
	}
	address := func(p *process, n byte) string {
		l, err := guest(t, p, n).Configure()
		require.NoError(t, err)
		return l.Addr.Addr().String()
	}
	p := run()
	assert.Equal(t, "192.168.105.2", address(p, 1))
	code, _ := p.signal(t, syscall.SIGTERM)
	require.Zero(t, code)

	p = run("--vmnet-reserve=02:00:00:00:01:02=192.168.105.2", "--vmnet-reserve=02:00:00:00:01:03=192.168.105.99")
	assert.Equal(t, "192.168.105.3", address(p, 1), "what it had is reserved for another")
	assert.Equal(t, "192.168.105.4", address(p, 4))
	assert.Equal(t, "192.168.105.2", address(p, 2))
	assert.Equal(t, "192.168.105.99", address(p, 3))
	g := guest(t, p, 5)
	_, err := g.Reboot(netip.MustParseAddr("192.168.105.99"))
	assert.ErrorIs(t, err, fakeguest.ErrNAK, "nobody else gets it by asking")
	g = guest(t, p, 3)
	l, err := g.Reboot(netip.MustParseAddr("192.168.105.99"))
	require.NoError(t, err)
	assert.Equal(t, "192.168.105.99/24", l.Addr.String())
}

func TestIsolatedGuests(t *testing.T) {
	for _, isolate := range []bool{false, true} {
		args := []string{gatewayFlag}
		if isolate {
			args = append(args, "--isolate")
		}
		p := start(t, args...)
		a, b := guest(t, p, 1), guest(t, p, 2)
		for _, g := range []*fakeguest.Guest{a, b} {
			_, err := g.Configure()
			require.NoError(t, err)
			_, err = g.Ping(gatewayAddr, 1)
			require.NoError(t, err)
		}
		reached := make(chan struct{}, 1)
		b.SetTap(func(f []byte) bool {
			if [6]byte(f[6:12]) == [6]byte(a.MAC()) {
				select {
				case reached <- struct{}{}:
				default:
				}
			}
			return false
		})
		const secret = "to another guest"
		for _, dst := range []net.HardwareAddr{b.MAC(), fakeguest.Broadcast, {0x33, 0x33, 0, 0, 0, 1}, {2, 7, 7, 7, 7, 7}} {
			require.NoError(t, a.Send(fakeguest.EthernetFrame(dst, a.MAC(), fakeguest.TypeTest, []byte(secret))))
		}
		_, err := a.Ping(gatewayAddr, 2)
		require.NoError(t, err, "all has gone through")
		_, err = b.Ping(gatewayAddr, 2)
		require.NoError(t, err)
		wait := patience
		if isolate {
			wait = 200 * time.Millisecond // it would be there by now
		}
		select {
		case <-reached:
			assert.False(t, isolate, "a frame of one guest reached the other")
		case <-time.After(wait):
			assert.True(t, isolate, "without the option guests reach each other")
		}
	}
}

// outsideAddr is an address of this host that counts as outside for a guest, so that a connection there says whether there
// is a way out. On a host without a network it is one that nobody has.
func outsideAddr(t *testing.T) (a netip.Addr, real bool) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, x := range addrs {
		n, ok := x.(*net.IPNet)
		if a, ok2 := netip.AddrFromSlice(n.IP.To4()); ok && ok2 && a.IsGlobalUnicast() && !netip.MustParsePrefix("192.168.105.0/24").Contains(a) {
			return a, true
		}
	}
	return netip.MustParseAddr("198.51.100.1"), false
}

func TestNoWayOutWithoutNAT44(t *testing.T) {
	addr, real := outsideAddr(t)
	l, err := net.Listen("tcp4", ":0")
	require.NoError(t, err)
	defer l.Close()
	to := netip.AddrPortFrom(addr, l.Addr().(*net.TCPAddr).AddrPort().Port())
	for _, off := range []bool{false, true} {
		args := []string{gatewayFlag}
		if off {
			args = append(args, "--vmnet-disable-nat44")
		}
		g := guest(t, start(t, args...), 1)
		lease, err := g.Configure()
		require.NoError(t, err)
		assert.Equal(t, off, !lease.Gateway.IsValid(), "a default route only where it leads somewhere")
		g.SetAddr(lease.Addr, gatewayAddr)
		if !off && !real {
			continue
		}
		flags, err := g.ExchangeSYN(to)
		require.NoError(t, err)
		assert.Equal(t, off, flags&fakeguest.TCPRst != 0)
		alias := netip.AddrPortFrom(netip.MustParseAddr("192.168.105.254"), to.Port())
		flags, err = g.ExchangeSYN(alias)
		require.NoError(t, err)
		assert.Zero(t, flags&fakeguest.TCPRst, "the host's loopback is there in any case")
	}
}
