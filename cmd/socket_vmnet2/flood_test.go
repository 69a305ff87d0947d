// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

var floodTime = flag.Duration("flood", 200*time.Millisecond, "how long each flood of TestFlood lasts; 5s and -v for the figures of docs/reliability.md")

// floodEnv has the test program be a guest that floods the gateway: what it sends, the last byte of its MAC address, and the socket.
const floodEnv = "TEST_FLOOD"

// The floods. The first is for comparison.
var floods = []string{"a busy loop", "one UDP flow", "UDP flows", "TCP connections"}

// TestFlood: while guests send to the gateway as fast as they can, and begin flows with it, another one's pings come back and a new
// one gets an address.
func TestFlood(t *testing.T) {
	for _, kind := range floods {
		for _, n := range []int{1, 8} {
			p := start(t, gatewayFlag, "--backend=usernet")
			victim := configured(t, p, 100)
			ctx, stop := context.WithCancel(t.Context())
			for i := range n {
				c := exec.CommandContext(ctx, os.Args[0])
				c.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%d,%s", floodEnv, kind, i, p.sock))
				require.NoError(t, c.Start())
				defer func() { stop(); _ = c.Wait() }()
			}
			p.serving(t, n+1)
			var rtts []time.Duration
			for end := time.Now().Add(*floodTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				rtt, err := victim.Ping(gatewayAddr, 56)
				require.NoError(t, err, "%s, %d times", kind, n)
				rtts = append(rtts, rtt.Round(10*time.Microsecond))
			}
			began := time.Now()
			configured(t, p, 101)
			took := time.Since(began).Round(time.Millisecond)
			stop()
			slices.Sort(rtts)
			t.Logf("%d times %s: %d pings, p50 %v, p99 %v, max %v; DHCP of a new guest %v", n, kind, len(rtts), rtts[len(rtts)/2], rtts[len(rtts)*99/100],
				rtts[len(rtts)-1], took)
			p.stop(t)
		}
	}
}

// flood sends until this process is killed.
func flood(kind, last, socket string) error {
	n, _ := strconv.Atoi(last)
	g, err := configure(socket, byte(n), patience)
	for port := uint16(0); err == nil; {
		var packets [][]byte
		for range 64 {
			port++
			from, to := netip.AddrPortFrom(g.Addr().Addr(), 1024+port%60000), netip.AddrPortFrom(hostAlias, 9)
			switch kind {
			case floods[1]:
				packets = append(packets, fakeguest.UDPPacket(netip.AddrPortFrom(from.Addr(), 1), to, []byte("x")))
			case floods[2]:
				packets = append(packets, fakeguest.UDPPacket(from, to, []byte("x")))
			case floods[3]:
				packets = append(packets, fakeguest.TCPPacket(from, to, fakeguest.TCPSyn, 1, 0))
			}
		}
		if len(packets) > 0 {
			err = g.out(packets...)
		}
	}
	return err
}

// A routed guest has an address and knows its gateway.
type routed struct {
	*fakeguest.Guest
	gateway net.HardwareAddr
}

func configure(socket string, last byte, timeout time.Duration) (g routed, err error) {
	if g.Guest, err = fakeguest.Dial(socket, fakeguest.Options{MAC: net.HardwareAddr{2, 0, 0, 0, 2, last}, Timeout: timeout}); err != nil {
		return g, err
	}
	if _, err = g.Configure(); err == nil {
		g.gateway, err = g.Resolve(gatewayAddr)
	}
	return g, err
}

// configured makes a guest that waits up to 5 s for each answer.
func configured(t *testing.T, p *process, last byte) routed {
	t.Helper()
	g, err := configure(p.sock, last, 5*time.Second)
	t.Cleanup(g.Close)
	require.NoError(t, err)
	return g
}

// out sends IPv4 packets to the gateway.
func (g routed) out(packets ...[]byte) error {
	for i, p := range packets {
		packets[i] = fakeguest.EthernetFrame(g.gateway, g.MAC(), fakeguest.TypeIPv4, p)
	}
	return g.Send(packets...)
}

// TestUnread: guests that read none of their connections do not fill the gateway's memory, and cost nothing once they have gone.
func TestUnread(t *testing.T) {
	t.Parallel()
	const guests, limit = 8, 256                  // MiB
	raced := slices.Contains(buildFlags, "-race") // whose memory tells nothing
	p := start(t, gatewayFlag, "--backend=usernet")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() { _, _ = c.Write(make([]byte, 8<<20)) }()
		}
	}()
	to := netip.AddrPortFrom(hostAlias, l.Addr().(*net.TCPAddr).AddrPort().Port())
	s := p.describes(t, func(s status.Status) bool { return s.Network.Usernet.Gateway.PID != 0 })
	rss := func() int {
		u, err := lab.UseOf(s.Network.Usernet.Gateway.PID)
		require.NoError(t, err)
		return u.RSS >> 10
	}
	before := rss()
	var all []routed
	for i := range guests {
		g := configured(t, p, byte(i))
		all = append(all, g)
		accepted := g.Listen(func(f []byte) bool {
			p, err := fakeguest.Parse(f)
			return err == nil && p.TCPFlags == fakeguest.TCPSyn|fakeguest.TCPAck
		})
		from := netip.AddrPortFrom(g.Addr().Addr(), 1000)
		for range 256 {
			from = netip.AddrPortFrom(from.Addr(), from.Port()+1)
			require.NoError(t, g.out(fakeguest.TCPPacket(from, to, fakeguest.TCPSyn, 1, 0)))
			f, err := accepted.Next(patience)
			require.NoError(t, err)
			answer, _ := fakeguest.Parse(f)
			require.NoError(t, g.out(fakeguest.TCPPacket(from, to, fakeguest.TCPAck, 2, answer.TCPSeq+1)))
		}
	}
	most := before
	for range 20 {
		most = max(most, rss())
		time.Sleep(*floodTime / 20)
	}
	assert.True(t, raced || most < limit, "%d MiB", most)
	for _, g := range all {
		g.Close()
	}
	began := time.Now()
	assert.Eventually(t, func() bool { return raced || rss() < before+16 }, patience, 50*time.Millisecond, "%d MiB before", before)
	t.Logf("%d guests: %d MiB before, %d at most, back %v after their end", guests, before, most, time.Since(began).Round(time.Millisecond))
}

// TestHeld: a client that sends more than another one reads is held, unless it has a flow to a third one, or the other does not read at
// all; and two that flood each other get on.
func TestHeld(t *testing.T) {
	p := start(t)
	from, slow, third := p.dial(t, 1), p.dial(t, 2), p.dial(t, 3)
	from.send(0, "from")
	for _, c := range []*client{slow, third} {
		for c.send(0, "here"); !from.hears("here", 50*time.Millisecond); c.send(0, "here") {
		}
	}
	var pause, sent, taken, others atomic.Int64
	flood := func(c *client, n *atomic.Int64, dst ...byte) (end func()) {
		var b []byte
		for len(b) < 100_000 {
			for _, to := range dst {
				b = append(b, wire(to, c.mac, strings.Repeat("x", 1500))...)
			}
		}
		require.NoError(t, c.SetWriteDeadline(time.Time{}))
		var done sync.WaitGroup
		var over atomic.Bool
		done.Go(func() {
			for !over.Load() {
				k, err := c.Write(b)
				assert.NoError(t, err)
				n.Add(int64(k))
			}
		})
		return func() { over.Store(true); done.Wait() }
	}
	read := func(c *client, n, pause *atomic.Int64) {
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		go func() {
			for b, err := make([]byte, 64<<10), error(nil); err == nil; time.Sleep(time.Duration(pause.Load())) {
				var k int
				k, err = c.Read(b)
				n.Add(int64(k))
			}
		}()
	}
	during := func(n *atomic.Int64, pace time.Duration) float64 {
		pause.Store(int64(pace))
		time.Sleep(50 * time.Millisecond)
		before := n.Load()
		time.Sleep(100 * time.Millisecond)
		return float64(n.Load()-before) / 100e3 // MB/s
	}
	const deaf, slowly = 40 * time.Millisecond, 500 * time.Microsecond
	read(slow, &taken, &pause)
	read(third, &others, new(atomic.Int64))

	// One try says little on a machine that does other things.
	eventually := func(ok func() bool) bool { return slices.ContainsFunc(make([]int, 30), func(int) bool { return ok() }) }
	var x, y, takes float64
	end := flood(from, &sent, 2, 3)
	assert.True(t, eventually(func() bool {
		x, y = during(&others, slowly), during(&others, deaf)
		return x >= 0.8*y
	}), "another flow has %.1f MB/s in place of %.1f", x, y)
	end()
	t.Logf("beside one that reads slowly another flow has %.1f MB/s, beside one that does not read %.1f", x, y)
	end = flood(from, &sent, 2)
	assert.True(t, eventually(func() bool {
		x, y, takes = during(&sent, slowly), during(&sent, deaf), during(&taken, slowly)
		return 2*x < y
	}), "%.1f MB/s are read for one that takes %.1f, %.1f for one that does not read", x, takes, y)
	end()
	t.Logf("%.1f MB/s are read for one that takes %.1f, %.1f for one that does not read", x, takes, y)
	back := new(atomic.Int64)
	read(from, back, new(atomic.Int64))
	end = flood(from, &sent, 3)
	end2 := flood(third, &sent, 1)
	assert.True(t, eventually(func() bool {
		x, y = during(&others, 0), during(back, 0)
		return x > 0 && y > 0
	}), "two that flood each other get %.1f and %.1f MB/s", x, y)
	end()
	end2()
	t.Logf("two that flood each other get %.1f and %.1f MB/s", x, y)
}
