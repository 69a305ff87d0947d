// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// udpEcho answers each datagram to its sender, from a socket on the host's loopback.
func udpEcho(t testing.TB) (port uint16, senders func() int) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	seen := map[string]bool{}
	echo(t, c, func(from net.Addr, b []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		seen[from.String()] = true
		return b
	})
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port(), func() int { mu.Lock(); defer mu.Unlock(); return len(seen) }
}

// exchangeUDP sends data until an answer is right. Datagrams may be lost, and what was sent again because the answer was late is
// answered again.
func exchangeUDP(t testing.TB, c net.Conn, data []byte, right func(answer []byte) bool) {
	t.Helper()
	buf := make([]byte, bufSize)
	for until := time.Now().Add(patience); time.Now().Before(until); {
		_, err := c.Write(data)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		for {
			n, err := c.Read(buf)
			if err != nil {
				break
			}
			if right(buf[:n]) {
				return
			}
		}
	}
	require.Fail(t, "no answer")
}

// TestUDP: datagrams of all sizes come back, in one flow, which each of them keeps.
func TestUDP(t *testing.T) {
	n := start(t, Config{}, tuning{udpIdle: time.Hour})
	port, senders := udpEcho(t)
	c, err := newIPGuest(t, n, mac1, guestIP).dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	defer c.Close()
	used := int64(-1)
	for _, size := range []int{1, 1472, 1473, 9000, 60000, 0} { // 1472 fits the MTU, more comes in fragments
		data := randomBytes(size)
		exchangeUDP(t, c, data, func(answer []byte) bool { return bytes.Equal(data, answer) })
		n.gw.engine.flows.mu.Lock()
		for _, f := range n.gw.engine.flows.flows {
			assert.Greater(t, f.used.Load(), used, "%d bytes", size)
			used = f.used.Load()
		}
		n.gw.engine.flows.mu.Unlock()
	}
	assert.Equal(t, 1, senders(), "one flow")
}

// TestUDPIdle: a flow that carries nothing for a while ends.
func TestUDPIdle(t *testing.T) {
	n := start(t, Config{}, tuning{udpIdle: 100 * time.Millisecond})
	port, senders := udpEcho(t)
	g := newIPGuest(t, n, mac1, guestIP)
	c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	defer c.Close()
	any := func([]byte) bool { return true }
	exchangeUDP(t, c, []byte("x"), any)
	require.Eventually(t, func() bool { return n.Stats().UDPFlows == 0 }, patience, 5*time.Millisecond)
	exchangeUDP(t, c, []byte("again"), any)
	assert.GreaterOrEqual(t, senders(), 2, "the next datagram starts another")
}

// echo answers each datagram to its sender with what answer makes of it, until the end of the test.
func echo(t testing.TB, c net.PacketConn, answer func(from net.Addr, b []byte) []byte) {
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, bufSize)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(answer(from, buf[:n]), from)
		}
	})
	t.Cleanup(func() { _ = c.Close(); wg.Wait() })
}

// echoed sends data from a guest to a host's echo until it is back.
func (g *ipGuest) echoed(t testing.TB, port uint16, data ...[]byte) {
	t.Helper()
	c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	defer c.Close()
	for _, d := range data {
		exchangeUDP(t, c, d, func(answer []byte) bool { return bytes.Equal(d, answer) })
	}
}
