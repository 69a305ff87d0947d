// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// forwardTo forwards a free port of the host to the test's guest.
func forwardTo(t testing.TB, proto string, guestPort uint16) network.Forward {
	return network.Forward{Proto: proto, HostPort: vnettest.FreePort(t), Guest: netip.AddrPortFrom(guestIP, guestPort)}
}

func dialHost(t testing.TB, f network.Forward) net.Conn {
	t.Helper()
	c, err := net.DialTimeout(f.Proto+"4", fmt.Sprintf("127.0.0.1:%d", f.HostPort), patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	return c
}

// endOf connects and returns how the connection ends. A reset may come before the connection is known to be there.
func endOf(f network.Forward) error {
	c, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", f.HostPort), patience)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err = c.Read(make([]byte, 1))
	return err
}

func listenGuest(t testing.TB, g *ipGuest, port uint16) *gonet.TCPListener {
	l, err := gonet.ListenTCP(g.stack, full(netip.AddrPortFrom(guestIP, port)), ipv4.ProtocolNumber)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestForwardTCP: data both ways at once, the gateway as the other end, and an orderly end. What else may happen to a connection is in
// the tests of those that a guest begins.
func TestForwardTCP(t *testing.T) {
	f := forwardTo(t, "tcp", 80)
	n := start(t, Config{Forwards: []network.Forward{f}}, tuning{})
	l := listenGuest(t, newIPGuest(t, n, mac1, guestIP), 80)
	outside := dialHost(t, f)
	inside, err := l.Accept()
	require.NoError(t, err)
	assert.Equal(t, gatewayIP.String(), inside.RemoteAddr().(*net.TCPAddr).IP.String())
	assert.Equal(t, 1, n.Stats().TCPFlows)
	bothWays(t, outside, inside, 1<<20)
	_ = inside.Close()
	assert.Eventually(t, func() bool { return n.Stats().TCPFlows == 0 }, patience, time.Millisecond, "flow ended")
}

// TestForwardToNoGuest: the side that connects sees an end, not silence.
func TestForwardToNoGuest(t *testing.T) {
	f := forwardTo(t, "tcp", 80)
	n := start(t, Config{Forwards: []network.Forward{f}}, tuning{dialTimeout: 200 * time.Millisecond})
	assert.ErrorIs(t, endOf(f), syscall.ECONNRESET, "no guest has the address")
	newIPGuest(t, n, mac1, guestIP)
	assert.ErrorIs(t, endOf(f), syscall.ECONNRESET, "the guest does not listen")
	assert.Eventually(t, func() bool { return n.Stats().TCPFlows == 0 }, patience, time.Millisecond)
}

// TestForwardLimit: one forward's connections are bounded, and others' are not touched by it.
func TestForwardLimit(t *testing.T) {
	f, other := forwardTo(t, "tcp", 80), forwardTo(t, "tcp", 81)
	n := start(t, Config{Forwards: []network.Forward{f, other}}, tuning{})
	g := newIPGuest(t, n, mac1, guestIP)
	l, l2 := listenGuest(t, g, 80), listenGuest(t, g, 81)
	for range maxFlows {
		dialHost(t, f)
		c, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	assert.ErrorIs(t, endOf(f), syscall.ECONNRESET)
	n.ask()
	assert.Contains(t, n.log.String(), "forwarded TCP connection refused")
	dialHost(t, other)
	c, err := l2.Accept()
	require.NoError(t, err)
	_ = c.Close()
}

// echoGuestUDP answers each datagram with its sender's address in front.
func echoGuestUDP(t testing.TB, g *ipGuest, port uint16) {
	laddr := full(netip.AddrPortFrom(guestIP, port))
	c, err := gonet.DialUDP(g.stack, &laddr, nil, ipv4.ProtocolNumber)
	require.NoError(t, err)
	echo(t, c, func(from net.Addr, b []byte) []byte { return append([]byte(from.String()+" "), b...) })
}

// ask exchanges a datagram until there is an answer, and returns the sender that the guest saw.
func ask(t testing.TB, c net.Conn, text string) (sender string) {
	t.Helper()
	exchangeUDP(t, c, []byte(text), func(b []byte) bool {
		from, answer, _ := strings.Cut(string(b), " ")
		sender = from
		return answer == text
	})
	return sender
}

func TestForwardUDP(t *testing.T) {
	f := forwardTo(t, "udp", 53)
	n := start(t, Config{Forwards: []network.Forward{f}}, tuning{})
	g := newIPGuest(t, n, mac1, guestIP)
	echoGuestUDP(t, g, 53)
	a, b := dialHost(t, f), dialHost(t, f)
	fromA, fromB := ask(t, a, "a"), ask(t, b, "b")
	assert.True(t, strings.HasPrefix(fromA, gatewayIP.String()+":"), fromA)
	assert.NotEqual(t, fromA, fromB, "each sender is a flow")
	assert.Equal(t, fromA, ask(t, a, "again"), "the same one")
	for _, size := range []int{0, 1472, 1473, 9000, 60000} {
		assert.Equal(t, fromA, ask(t, a, strings.Repeat("x", size)), "%d bytes", size)
	}
	assert.Equal(t, 2, n.Stats().UDPFlows)
	stranger, err := g.dialUDP(netip.MustParseAddrPort(fromA)) // from another port of the guest
	require.NoError(t, err)
	_, _ = stranger.Write([]byte("not an answer"))
	assert.Equal(t, fromA, ask(t, a, "b"))
	_ = stranger.Close()
}

// TestForwardUDPAnswersFromWhereItWasAsked: a host has many addresses. Linux gives it all of 127.0.0.0/8.
func TestForwardUDPAnswersFromWhereItWasAsked(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // the choice is the host's
	}
	f := forwardTo(t, "udp", 53)
	n := start(t, Config{Forwards: []network.Forward{f}}, tuning{})
	echoGuestUDP(t, newIPGuest(t, n, mac1, guestIP), 53)
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2), Port: int(f.HostPort)})
	require.NoError(t, err)
	defer c.Close()
	ask(t, c, "x") // a connected socket takes answers from that address only
}

// TestForwardUDPEnds: an idle sender's flow ends, and of too many senders the one that was idle for longest makes room.
func TestForwardUDPEnds(t *testing.T) {
	f := forwardTo(t, "udp", 53)
	n := start(t, Config{Forwards: []network.Forward{f}}, tuning{udpIdle: 200 * time.Millisecond})
	echoGuestUDP(t, newIPGuest(t, n, mac1, guestIP), 53)
	c := dialHost(t, f)
	ask(t, c, "x")
	assert.Eventually(t, func() bool { return n.Stats().UDPFlows == 0 }, patience, time.Millisecond, "idle")
	ask(t, c, "again")
	for range maxFlows + 20 {
		c = dialHost(t, f)
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		assert.LessOrEqual(t, n.Stats().UDPFlows, maxFlows)
	}
	ask(t, c, "the last one has a flow")
}

// TestForwardUDPToNoGuest: datagrams for a guest that is not there hold up nothing.
func TestForwardUDPToNoGuest(t *testing.T) {
	f := forwardTo(t, "udp", 53)
	n := start(t, Config{Forwards: []network.Forward{f}}, tuning{})
	senders := []net.Conn{dialHost(t, f), dialHost(t, f), dialHost(t, f)}
	assert.Eventually(t, func() bool { // the host drops some
		for _, c := range senders {
			_, _ = c.Write(make([]byte, 30000))
		}
		return n.Stats().UDPFlows == len(senders)
	}, patience, time.Millisecond, "all senders are heard")
	require.NoError(t, n.Close())
	assert.Empty(t, n.log.String())
}
