// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway/dhcp"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

var (
	gatewayIP = netip.MustParseAddr("192.168.105.1")
	aliasIP   = netip.MustParseAddr("192.168.105.254")
	guestIP   = netip.MustParseAddr("192.168.105.77")
	outside   = netip.MustParseAddr("203.0.113.9")
)

const mac1, mac2 = "52:54:00:12:34:01", "52:54:00:12:34:02"

// patience is for what happens soon on a machine that is not busy.
const patience = 30 * time.Second

// A Network is a bridge with a gateway on a real pair of sockets, whose loop runs in this process, and the least of a daemon.
type Network struct {
	*bridge.Bridge
	t       testing.TB
	plan    Plan
	gw      *gateway
	port    *bridge.Port
	conn    *net.UnixConn
	writing sync.Mutex
	log     vnettest.Log
	done    chan struct{} // both loops have ended
	err     error         // of the gateway's
	closing sync.Once

	sessions atomic.Uint64

	answers chan Answer
	mu      sync.Mutex
	hello   Hello
	leases  map[string]dhcp.Lease
}

// start makes a network.
func start(t testing.TB, c Config, tune tuning) *Network {
	t.Helper()
	if c.Mode == "" {
		c.Mode = network.ModeShared
	}
	n := &Network{
		Bridge: bridge.New(bridge.Options{}), t: t, done: make(chan struct{}), answers: make(chan Answer, 100),
		leases: map[string]dhcp.Lease{},
	}
	var err error
	n.plan, err = c.Plan()
	require.NoError(t, err)
	ours, theirs, err := NewPair()
	require.NoError(t, err)
	n.conn = ours
	n.gw, err = newGateway(theirs, tune)
	require.NoError(t, err)
	n.port, err = n.Bridge.Attach(bridge.PortOptions{Name: "gateway", StaticMACs: []net.HardwareAddr{n.plan.MAC}, KnownOnly: true}, n)
	require.NoError(t, err)
	var loops sync.WaitGroup
	loops.Go(func() {
		n.err = n.gw.serve(Hello{Version: "test"}, nil)
		_ = n.gw.pair.Close() // as when its process ends
	})
	loops.Go(n.read)
	go func() { loops.Wait(); close(n.done) }()
	t.Cleanup(func() { require.NoError(t, n.Close()) })

	n.write(AppendMessage(nil, KindConfig, c))
	n.write(AppendMessage(nil, KindStart, nil))
	n.ask()
	for i, f := range c.Forwards {
		n.pass(i, listen(t, f))
	}
	return n
}

// listen opens the port of a forward as the daemon does it.
func listen(t testing.TB, f network.Forward) *os.File {
	at := netip.AddrPortFrom(f.HostIP, f.HostPort)
	var socket interface {
		io.Closer
		File() (*os.File, error)
	}
	var err error
	if f.Proto == "tcp" {
		socket, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	} else {
		socket, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	}
	require.NoError(t, err)
	defer socket.Close()
	file, err := socket.File()
	require.NoError(t, err)
	return file
}

// pass gives the gateway the socket of a forward.
func (n *Network) pass(number int, f *os.File) {
	n.writing.Lock()
	defer n.writing.Unlock()
	_, _, err := n.conn.WriteMsgUnix(AppendMessage(nil, KindForward, number), unix.UnixRights(int(f.Fd())), nil)
	require.NoError(n.t, err)
	require.NoError(n.t, f.Close())
}

func (n *Network) write(b []byte) {
	n.writing.Lock()
	defer n.writing.Unlock()
	_, _ = n.conn.Write(b)
}

// MaxFrame implements frame.Sink.
func (n *Network) MaxFrame() int { return n.plan.MaxFrame() }

// Deliver implements frame.Sink.
func (n *Network) Deliver(frame.Batch) {}

// DeliverFrom implements bridge.sourceSink.
func (n *Network) DeliverFrom(source any, b frame.Batch) {
	n.write(append(AppendSession(nil, source.(uint64)), b.Bytes()...))
}

// read handles what comes from the gateway.
func (n *Network) read() {
	from := Parser{Frames: func(b frame.Batch) error { n.port.Send(b); return nil }, Message: n.message, MaxMessage: MaxMessage}
	pair, err := PairOf(n.conn, nil)
	for err == nil {
		err = pair.Receive(&from)
	}
	assert.ErrorIs(n.t, err, io.EOF)
}

func (n *Network) message(kind byte, body []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch kind {
	case KindHello:
		return Take(body, func(h Hello) error { n.hello = h; return nil })
	case KindAnswer:
		return Take(body, func(a Answer) error { n.answers <- a; return nil })
	case KindLeased:
		return Take(body, func(l dhcp.Lease) error { n.leases[l.MAC.String()] = l; return nil })
	case KindLog:
		return Take(body, func(l LogLine) error {
			_, err := n.log.Write([]byte(l.Message + " " + strings.Join(l.Args, " ") + "\n"))
			return err
		})
	}
	return nil
}

// ask waits until the gateway has handled what it got before.
func (n *Network) ask() Answer {
	n.write(AppendMessage(nil, KindAsk, 1))
	select {
	case a := <-n.answers:
		return a
	case <-n.done:
	case <-time.After(patience):
		assert.Fail(n.t, "the gateway does not answer")
	}
	return Answer{}
}

// Stats are the gateway's counters.
func (n *Network) Stats() stats { return n.ask().Stats }

// Attach implements network.Network.
func (n *Network) Attach(_ context.Context, o network.PortOptions, toClient frame.Sink) (network.Port, error) {
	session := n.sessions.Add(1)
	p, err := n.Bridge.Attach(bridge.PortOptions{Name: o.Name, Source: session}, toClient)
	return guestPort{p, n, session}, err
}

// Info implements network.Network.
func (n *Network) Info() network.Info {
	return network.Info{Subnet: n.plan.Subnet, Gateway: n.plan.Gateway, MTU: n.plan.MTU, MaxFrame: frame.MaxLen}
}

// Close ends it, in the order of a daemon that stops. The flows and the stack would end with the gateway's process.
func (n *Network) Close() error {
	n.closing.Do(func() {
		_ = n.Bridge.Close()
		_ = n.conn.CloseWrite()
		<-n.done
		_ = n.conn.Close()
	})
	return n.err
}

// guestPort is a port that tells the gateway of its end.
type guestPort struct {
	*bridge.Port
	n       *Network
	session uint64
}

func (p guestPort) Info() network.PortInfo {
	return network.PortInfo{MTU: p.n.plan.MTU, MaxFrame: frame.MaxLen}
}

func (p guestPort) Close() error {
	err := p.Port.Close()
	p.n.write(AppendMessage(nil, KindGone, p.session))
	return err
}

func TestLeaseAndPing(t *testing.T) {
	n := start(t, Config{}, tuning{})
	g := newRawGuest(t, n, mac1)
	ip, ack := g.lease()
	assert.Equal(t, "192.168.105.2", ip.String())
	assert.Equal(t, "192.168.105.1", ack.Router()[0].String())
	assert.Equal(t, "192.168.105.1", ack.DNS()[0].String())
	n.mu.Lock()
	assert.Equal(t, ip, n.leases[mac1].IP, "the daemon knew of it before the guest")
	assert.Equal(t, Hello{Protocol: Protocol, Version: "test"}, n.hello)
	n.mu.Unlock()
	for _, tt := range []struct {
		name  string
		dst   netip.Addr
		reply bool
	}{
		{"gateway", gatewayIP, true},
		{"alias", aliasIP, true},
		{"no guest of the subnet", netip.MustParseAddr("192.168.105.99"), false},
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
