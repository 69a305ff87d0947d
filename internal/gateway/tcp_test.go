// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// hangingDial hangs on 203.0.113.0/24 until the context ends, as an address does that drops packets. Everything else
// leads to the host's loopback, as if the outside were there.
func hangingDial(dialing *atomic.Int32) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		dialing.Add(1)
		defer dialing.Add(-1)
		if strings.HasPrefix(address, "203.0.113.") {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		_, port, _ := net.SplitHostPort(address)
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
}

// TestTCPBothWays sends 4 MB each way at once and ends each direction for itself.
func TestTCPBothWays(t *testing.T) {
	n := start(t, Config{}, tuning{})
	c, h := connect(t, newIPGuest(t, n, mac1, guestIP))
	bothWays(t, c, h, 4<<20)
	assert.Eventually(t, func() bool { return n.Stats().TCPFlows == 0 }, patience, time.Millisecond, "flow ended")
}

// bothWays sends size bytes each way at once, ends each direction in order, and compares what arrives.
func bothWays(t *testing.T, a, b net.Conn, size int) {
	t.Helper()
	var wg sync.WaitGroup
	ends, data := []net.Conn{a, b}, [][]byte{randomBytes(size), randomBytes(size)}
	for i, c := range ends {
		wg.Go(func() {
			_, _ = c.Write(data[i])
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		})
		wg.Go(func() {
			got, err := io.ReadAll(c)
			assert.NoError(t, err)
			assert.True(t, bytes.Equal(data[1-i], got), "what the other end sent, %d bytes", len(got))
		})
	}
	wg.Wait()
}

func hostPort(l net.Listener) uint16 { return l.Addr().(*net.TCPAddr).AddrPort().Port() }

// TestHalfClose: the side that ends its direction first still gets everything that the other sends afterwards.
func TestHalfClose(t *testing.T) {
	g := newIPGuest(t, start(t, Config{}, tuning{}), mac1, guestIP)
	for _, first := range []string{"guest", "host"} {
		t.Run(first+" first", func(t *testing.T) {
			c, h := connect(t, g)
			var ends, other net.Conn = c, h
			if first == "host" {
				ends, other = h, c
			}
			require.NoError(t, ends.(interface{ CloseWrite() error }).CloseWrite())
			b, err := io.ReadAll(other)
			require.NoError(t, err, "an orderly end")
			assert.Empty(t, b)
			_, err = other.Write([]byte("late"))
			require.NoError(t, err)
			other.Close()
			b, err = io.ReadAll(ends)
			require.NoError(t, err)
			assert.Equal(t, "late", string(b))
		})
	}
}

// connect makes a connection from a guest to the host's loopback and returns both ends.
func connect(t testing.TB, g *ipGuest) (*gonet.TCPConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() { c, _ := l.Accept(); accepted <- c }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := g.dialTCP(ctx, netip.AddrPortFrom(aliasIP, hostPort(l)))
	require.NoError(t, err)
	h := <-accepted
	require.NotNil(t, h)
	t.Cleanup(func() { c.Close(); h.Close() })
	return c, h
}

// TestResetIsPassedOn: a reset of one side arrives at the other as a reset, not as an orderly end.
func TestResetIsPassedOn(t *testing.T) {
	g := newIPGuest(t, start(t, Config{}, tuning{}), mac1, guestIP)
	c, h := connect(t, g)
	require.NoError(t, h.(*net.TCPConn).SetLinger(0))
	h.Close()
	_, err := io.ReadAll(c)
	assert.ErrorContains(t, err, "reset")

	_, h = connect(t, g)
	for _, e := range g.stack.RegisteredEndpoints() {
		e.Abort()
	}
	_, err = io.ReadAll(h)
	assert.ErrorContains(t, err, "reset")
}

// TestPortsAreReused: a guest opens a connection with the ports of one that the host has just closed.
func TestPortsAreReused(t *testing.T) {
	n := start(t, Config{}, tuning{})
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	})
	g := newIPGuest(t, n, mac1, guestIP)
	newFirstSYNs(g)
	from := full(netip.AddrPortFrom(guestIP, 40000))
	to := full(netip.AddrPortFrom(aliasIP, hostPort(l)))
	for range 3 {
		var c *gonet.TCPConn
		for err = errors.New("port is in use"); err != nil && strings.Contains(err.Error(), "port is in use"); { // by the guest, for a moment
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			c, err = gonet.DialTCPWithBind(ctx, g.stack, from, to, header.IPv4ProtocolNumber)
			cancel()
		}
		require.NoError(t, err)
		_, err = io.ReadAll(c)
		require.NoError(t, err)
		c.Close()
		require.Eventually(t, func() bool { return n.Stats().TCPFlows == 0 }, patience, time.Millisecond)
	}
}

// TestUnconfirmedEnd: a connection whose end the guest does not confirm, as when its machine is paused, still counts as one of
// its flows, and the guest gets all of it later.
func TestUnconfirmedEnd(t *testing.T) {
	n := start(t, Config{}, tuning{})
	g := newIPGuest(t, n, mac1, guestIP)
	c, h := connect(t, g)
	require.NoError(t, c.CloseWrite())
	_, err := io.ReadAll(h)
	require.NoError(t, err)
	ended := make(chan struct{})
	var once sync.Once
	g.SetTap(func(f []byte) bool { // deaf from here on
		if len(f) > atFlags && f[atProtocol] == uint8(header.TCPProtocolNumber) && header.TCPFlags(f[atFlags]).Contains(header.TCPFlagFin) {
			once.Do(func() { close(ended) })
		}
		return true
	})
	data := make([]byte, 8<<10) // all of it is sent at once, and the end of the connection with it
	_, err = h.Write(data)
	require.NoError(t, err)
	h.Close()
	<-ended
	assert.Equal(t, 1, n.Stats().TCPFlows)
	g.SetTap(nil) // what is repeated is confirmed
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Len(t, got, len(data))
	assert.Eventually(t, func() bool { return n.Stats().TCPFlows == 0 }, patience, 5*time.Millisecond)
}

// TestRefused: what a guest may not reach, or what refuses, is answered with a reset at once, not with silence. Where flows may
// lead is in TestTarget.
func TestRefused(t *testing.T) {
	dead, open := vnettest.FreePort(t), echoServer(t)
	dialed := make(chan string, 100)
	n := start(t, Config{}, tuning{dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed <- address
		return hangingDial(new(atomic.Int32))(ctx, network, address)
	}})
	g := newIPGuest(t, n, mac1, guestIP)
	newFirstSYNs(g) // each is dialled for once
	for _, tt := range []struct {
		name string
		to   netip.Addr
		port uint16
		ok   bool
		dial string // the address that is dialled, empty = nothing
	}{
		{"alias, open", aliasIP, open, true, "127.0.0.1"},
		{"alias, closed", aliasIP, dead, false, "127.0.0.1"},
		{"outside, open", netip.MustParseAddr("198.51.100.1"), open, true, "198.51.100.1"},
		{"outside, closed", netip.MustParseAddr("198.51.100.1"), dead, false, "198.51.100.1"},
		{"gateway", gatewayIP, open, false, ""},
		{"gateway, DNS", gatewayIP, 53, true, ""},
		{"link-local, metadata of clouds", netip.MustParseAddr("169.254.169.254"), 80, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := g.dialTCP(t.Context(), netip.AddrPortFrom(tt.to, tt.port))
			if tt.ok {
				require.NoError(t, err)
				c.Close()
			} else {
				assert.ErrorContains(t, err, "refused")
			}
			if tt.dial != "" {
				assert.Equal(t, fmt.Sprintf("%s:%d", tt.dial, tt.port), <-dialed)
			}
			assert.Empty(t, dialed)
		})
	}
}

// TestHangingDials: a guest with 300 connections to nowhere, from forged addresses too, has no more than its share, and
// neither stops another guest nor, once its dials have timed out, itself.
func TestHangingDials(t *testing.T) {
	var dialing atomic.Int32
	release := make(chan struct{}) // until then no dial notices that its time is over
	n := start(t, Config{}, tuning{dialTimeout: 2 * time.Second, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := hangingDial(&dialing)(ctx, network, address)
		if err != nil {
			<-release
		}
		return c, err
	}})
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free) // before the network is closed
	port := echoServer(t)
	bad := newRawGuest(t, n, mac1)
	bad.announce(guestIP)
	for i := range 300 {
		src := netip.AddrFrom4([4]byte{192, 168, 105, byte(100 + i%7)})
		bad.toGateway(synPacket(src, uint16(1000+i), netip.AddrPortFrom(outside, 80)))
		time.Sleep(2 * time.Millisecond) // no more than it may begin
	}
	require.Eventually(t, func() bool { return n.Stats().TCPFlows == maxFlows }, patience, time.Millisecond)
	fetch(t, newIPGuest(t, n, mac2, netip.MustParseAddr("192.168.105.50")), netip.AddrPortFrom(aliasIP, port))
	assert.True(t, bad.ping(guestIP, gatewayIP, patience), "its ping works")

	free()
	require.Eventually(t, func() bool { return n.Stats().TCPFlows == 0 }, patience, 5*time.Millisecond)
	bad.Close()
	fetch(t, newIPGuest(t, n, mac1, guestIP), netip.AddrPortFrom(aliasIP, port))
}

func fetch(t *testing.T, g *ipGuest, to netip.AddrPort) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := g.dialTCP(ctx, to)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write(bytes.Repeat([]byte("x"), 3000))
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Len(t, b, 3000)
}

// firstSYNs keeps back the SYNs that a guest's stack repeats: what the first one does not bring about does not come. A busy machine
// may take longer than the second after which it is repeated.
type firstSYNs struct {
	network.Port
	mu   sync.Mutex
	seen map[[16]byte]bool // addresses, ports and number
}

func newFirstSYNs(g *ipGuest) {
	g.port = &firstSYNs{Port: g.port, seen: map[[16]byte]bool{}}
}

// Send implements network.Port.
func (p *firstSYNs) Send(b frame.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wire []byte
	n := 0
	for it := b.Iter(); it.Next(); {
		f := it.Frame()
		if len(f) >= atOptions && f[atProtocol] == uint8(header.TCPProtocolNumber) && opens(header.TCPFlags(f[atFlags])) {
			k := [16]byte(f[atAddress:])
			if p.seen[k] {
				continue
			}
			p.seen[k] = true
		}
		wire = frame.Append(wire, f)
		n++
	}
	p.Port.Send(frame.NewBatch(wire, n))
}
