// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"bytes"
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

// TestUDPIdle: a flow that carries nothing for a while ends, one that is in use does not.
func TestUDPIdle(t *testing.T) {
	n := start(t, Options{}, tuning{udpIdle: 100 * time.Millisecond})
	port, senders := udpEcho(t)
	g := newIPGuest(t, n, mac1, guestIP)
	c, err := g.dialUDP(netip.AddrPortFrom(aliasIP, port))
	require.NoError(t, err)
	defer c.Close()
	require.NotNil(t, exchangeUDP(t, c, []byte("x")))
	require.Eventually(t, func() bool { return n.Stats().UDPFlows == 0 }, patience, 5*time.Millisecond)
	assert.NotNil(t, exchangeUDP(t, c, []byte("again")), "the next datagram starts another")
	assert.GreaterOrEqual(t, senders(), 2)
}
