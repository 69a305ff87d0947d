// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

func someKey(p tcpip.TransportProtocolNumber, i int) flowKey {
	k := flowKey{proto: p}
	k.id.RemotePort, k.id.LocalPort = uint16(i), uint16(1+i>>16)
	return k
}

// TestFlowLimit: each guest has so many TCP flows, and as many UDP flows, of which a new one takes the place of the one that was
// idle for longest.
func TestFlowLimit(t *testing.T) {
	ft := newFlowTable()
	for i := range maxFlows {
		require.NotNil(t, ft.add(1, someKey(header.TCPProtocolNumber, i)))
		ft.add(1, someKey(header.UDPProtocolNumber, i)).used.Store(int64(i))
	}
	assert.Nil(t, ft.add(1, someKey(header.TCPProtocolNumber, 999)), "one too many")
	assert.NotNil(t, ft.add(2, someKey(header.TCPProtocolNumber, 1000)), "another guest counts for itself")
	assert.Nil(t, ft.add(2, someKey(header.TCPProtocolNumber, 3)), "these ports are in use")
	ft.lookup(someKey(header.TCPProtocolNumber, 3)).release()
	assert.NotNil(t, ft.add(1, someKey(header.TCPProtocolNumber, 999)), "there is room again")

	other := ft.add(2, someKey(header.UDPProtocolNumber, 2000))
	other.used.Store(-1)
	ft.lookup(someKey(header.UDPProtocolNumber, 0)).touch()
	idle := ft.lookup(someKey(header.UDPProtocolNumber, 1))
	assert.NotNil(t, ft.add(1, someKey(header.UDPProtocolNumber, 999)))
	assert.Error(t, idle.ctx.Err(), "the one that was idle for longest")
	_, udp := ft.counts()
	assert.Equal(t, maxFlows+1, udp)
}

// TestOrphans: flows of guests that left live on for their return, but not more than maxOrphans; the guest that left first
// loses them first.
func TestOrphans(t *testing.T) {
	ft := newFlowTable()
	flows := map[uint64][]*flow{}
	for guest := uint64(1); guest <= 4; guest++ {
		for i := range 200 {
			flows[guest] = append(flows[guest], ft.add(guest, someKey(header.TCPProtocolNumber, int(guest)<<16|i)))
		}
	}
	leave := func(guest uint64) (ended [5]int) {
		ft.guestGone(guest, time.Hour)
		for guest, all := range flows {
			for _, f := range all {
				if f.ctx.Err() != nil {
					ended[guest]++
				}
			}
		}
		return ended
	}
	assert.Equal(t, [5]int{}, leave(9), "had none")
	assert.Equal(t, [5]int{}, leave(1))
	assert.Equal(t, [5]int{}, leave(2))
	assert.Equal(t, [5]int{1: 600 - maxOrphans}, leave(3))
	for _, f := range flows[3] {
		f.release()
	}
	assert.Equal(t, [5]int{1: 600 - maxOrphans}, leave(4), "there is room for it")
	leave(5)
	assert.Len(t, ft.orphans, maxOrphans)
}

// TestFewFiles: however many flows one guest has, another one has some, those that are still ending counted.
func TestFewFiles(t *testing.T) {
	ft := newFlowTable()
	ft.most = 16
	for guest, want := range []int{8, 4, 2} {
		for i := range 20 {
			ft.add(uint64(guest), someKey(header.TCPProtocolNumber, guest<<16|i))
		}
		assert.Len(t, ft.shares[share{uint64(guest), header.TCPProtocolNumber}], want)
	}
	for i := range 20 { // takes the place of its own, whose sockets are not closed yet
		ft.add(9, someKey(header.UDPProtocolNumber, i))
	}
	assert.Equal(t, ft.most, ft.open)
}

// TestGone: connections of a client that has gone end, with something on the way to the guest or not, unless it comes back.
func TestGone(t *testing.T) {
	n := start(t, Config{}, tuning{returnTime: time.Second})
	gone, back := newIPGuest(t, n, mac1, guestIP), newIPGuest(t, n, mac2, guestIP.Next())
	_, idle := connect(t, gone)
	_, busy := connect(t, gone)
	guest, host := connect(t, back)
	gone.Close()
	n.write(AppendMessage(nil, KindGone, back.Port().(guestPort).session))
	_, err := busy.Write([]byte("lost"))
	require.NoError(t, err)
	for _, c := range []net.Conn{idle, busy} {
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, syscall.ECONNRESET)
	}
	bothWays(t, guest, host, 1<<10)
}

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
