// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	gatewayIP = netip.MustParseAddr("192.168.105.1")
	aliasIP   = netip.MustParseAddr("192.168.105.254")
	guestIP   = netip.MustParseAddr("192.168.105.77")
	outside   = netip.MustParseAddr("203.0.113.9")
)

const mac1, mac2 = "52:54:00:12:34:01", "52:54:00:12:34:02"

// start makes a network. Nothing in it is given up because the machine is busy, so that no test takes that for a fault.
func start(t testing.TB, o Options, tune tuning) *Network {
	if o.Mode == "" {
		o.Mode = vnet.ModeShared
	}
	tune.closeTime = orDefault(tune.closeTime, patience)
	n, err := newNetwork(o, tune)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func TestLeaseAndPing(t *testing.T) {
	n := start(t, Options{}, tuning{})
	g := newRawGuest(t, n, mac1)
	ip, ack := g.lease()
	assert.Equal(t, "192.168.105.2", ip.String())
	assert.Equal(t, "192.168.105.1", ack.Router()[0].String())
	assert.Equal(t, "192.168.105.1", ack.DNS()[0].String())
	for _, tt := range []struct {
		name  string
		dst   netip.Addr
		reply bool
	}{
		{"gateway", gatewayIP, true},
		{"alias", aliasIP, true},
		{"nobody in the subnet", netip.MustParseAddr("192.168.105.99"), false},
		{"outside", netip.MustParseAddr("8.8.8.8"), false},
		{"broadcast", netip.MustParseAddr("192.168.105.255"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wait := patience
			if !tt.reply {
				wait = 100 * time.Millisecond
			}
			assert.Equal(t, tt.reply, g.ping(ip, tt.dst, wait))
			assert.Equal(t, tt.reply, g.resolve(ip, tt.dst, wait) != nil, "ARP")
		})
	}
}

// echoServer listens on the host's loopback and sends back what it gets, each half-close for itself.
func echoServer(t testing.TB) uint16 {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// deadPort is a port of the host's loopback that refuses connections, and is nobody else's until the end of the test.
func deadPort(t *testing.T) uint16 {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	sa, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return uint16(sa.(*syscall.SockaddrInet4).Port)
}
