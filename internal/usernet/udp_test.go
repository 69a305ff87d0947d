// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
)

// udpEcho answers each datagram to its sender, from a socket on the host's loopback.
func udpEcho(t testing.TB) (port uint16, senders func() int) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	seen := map[string]bool{}
	count := make(chan int, 1)
	count <- 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 65536)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			seen[from.String()] = true
			<-count
			count <- len(seen)
			_, _ = c.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port(), func() int { n := <-count; count <- n; return n }
}

// exchangeUDP sends data until it is echoed, and returns the echo. Datagrams may be lost, and what was sent again because the
// answer was late is answered again.
func exchangeUDP(t *testing.T, c *gonet.UDPConn, data []byte) []byte {
	t.Helper()
	var last []byte
	for until := time.Now().Add(patience); time.Now().Before(until); {
		_, err := c.Write(data)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
		buf := make([]byte, 65536)
		for {
			n, err := c.Read(buf)
			if err != nil {
				break
			}
			if last = buf[:n]; bytes.Equal(last, data) {
				return last
			}
		}
	}
	return last
}

func TestUDP(t *testing.T) {
	n := start(t, Options{}, tuning{})
	port, senders := udpEcho(t)
	g := newIPGuest(t, n, mac1, guestIP)
	c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	defer c.Close()
	for _, size := range []int{1, 1472, 1473, 9000, 60000, 0} { // 1472 fits the MTU, more comes in fragments
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		assert.Equal(t, data, exchangeUDP(t, c, data), "%d bytes", size)
	}
	assert.Equal(t, 1, senders(), "one flow")
}

// TestUDPLimit: the 257th flow of a guest takes the place of the one that was idle for longest, and others' stay.
func TestUDPLimit(t *testing.T) {
	n := start(t, Options{}, tuning{udpIdle: time.Hour})
	port, _ := udpEcho(t)
	other := newIPGuest(t, n, mac2, netip.MustParseAddr("192.168.105.50"))
	oc, err := other.dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	defer oc.Close()
	require.Equal(t, []byte("other"), exchangeUDP(t, oc, []byte("other")))

	g := newIPGuest(t, n, mac1, guestIP)
	var conns []*gonet.UDPConn
	for i := range maxFlows + 10 {
		c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
		require.NoError(t, err)
		defer c.Close()
		data := binary.BigEndian.AppendUint32(nil, uint32(i))
		require.Equal(t, data, exchangeUDP(t, c, data))
		conns = append(conns, c)
		_, udp := n.gw.flows().counts()
		require.LessOrEqual(t, udp, maxFlows+1)
	}
	keys := func(c *gonet.UDPConn) bool {
		local := c.LocalAddr().(*net.UDPAddr).AddrPort()
		for k := range n.gw.flows().flows {
			if addrPort(k.id.RemoteAddress, k.id.RemotePort) == netip.AddrPortFrom(local.Addr().Unmap(), local.Port()) {
				return true
			}
		}
		return false
	}
	n.gw.flows().mu.Lock()
	assert.False(t, keys(conns[0]), "the first was idle for longest")
	assert.True(t, keys(conns[len(conns)-1]))
	assert.True(t, keys(oc), "of another guest")
	n.gw.flows().mu.Unlock()
	assert.Equal(t, []byte("again"), exchangeUDP(t, conns[0], []byte("again")), "it gets a new flow")
}

func TestUDPIdle(t *testing.T) {
	n := start(t, Options{}, tuning{udpIdle: 150 * time.Millisecond})
	port, _ := udpEcho(t)
	g := newIPGuest(t, n, mac1, guestIP)
	c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	defer c.Close()
	begin := time.Now()
	for time.Since(begin) < 400*time.Millisecond {
		sent := time.Now()
		require.NotNil(t, exchangeUDP(t, c, []byte("x")))
		time.Sleep(20 * time.Millisecond)
		if _, udp := n.gw.flows().counts(); udp != 1 { // unless the machine was so busy that it was idle
			require.Greater(t, time.Since(sent), 150*time.Millisecond, "kept while in use")
		}
	}
	require.Eventually(t, func() bool { return n.Stats().UDPFlows == 0 }, patience, 5*time.Millisecond)
	assert.NotNil(t, exchangeUDP(t, c, []byte("again")), "the next datagram starts another")
}

// TestUDPRefused: a guest learns that it may not send there, and nothing is dialled.
func TestUDPRefused(t *testing.T) {
	n := start(t, Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("dialled") }}, tuning{})
	g := newIPGuest(t, n, mac1, guestIP)
	for _, to := range []string{"192.168.105.1:123", "169.254.169.254:80", "192.168.105.1:67"} {
		c, err := g.dialUDP(netip.MustParseAddrPort(to))
		require.NoError(t, err)
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		_, udp := n.gw.flows().counts()
		assert.Zero(t, udp, to)
		c.Close()
	}
}
