// SPDX-License-Identifier: Apache-2.0

// Package fakeguest is the network part of a virtual machine without the machine: a Guest answers ARP and ping, asks for
// DHCP leases, and sends and collects frames, over a client's socket or over a port of a network. Tests use it, and the
// self test of the program.
package fakeguest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// ErrTimeout is returned when what was waited for did not come in time.
var ErrTimeout = errors.New("nothing came in time")

// defaultTimeout is how long a Guest waits for an answer.
const defaultTimeout = 5 * time.Second

// queueLen is how many frames a Guest's network card holds for its processor, in frames. More are dropped.
const queueLen = 4096

// Options describe a Guest. The zero value is usable.
type Options struct {
	Name    string           // for DHCP (option 12) and for a port; default "guest"
	MAC     net.HardwareAddr // default: one that no other Guest of the process has
	Timeout time.Duration    // for each answer; default defaultTimeout
	// MaxFrame is the longest frame that a port's Guest takes, in bytes; default frame.MaxStreamLen.
	MaxFrame int
	// Quiet turns the answers to ARP and ping off.
	Quiet bool
}

// A Guest is the network part of a virtual machine: it answers ARP and ping for its address, and asks on command. Methods
// may be called from several goroutines.
type Guest struct {
	opts Options
	link Link

	queue chan []byte
	tap   atomic.Pointer[func(f []byte) bool]
	wg    sync.WaitGroup
	stop  chan struct{}
	done  chan struct{} // closed when the link ended
	err   error         // why; set before done is closed

	sendMu sync.Mutex // one goroutine at a time sends

	mu        sync.Mutex
	listeners map[*Listener]struct{}
	addr      netip.Prefix
	gateway   netip.Addr
	neighbour map[netip.Addr]net.HardwareAddr

	ids atomic.Uint32 // for echo, ports and transactions
}

// guests numbers the Guests of the process for their MAC addresses.
var guests atomic.Uint32

// New plugs a Guest into l, which it takes over. Close unplugs it. An error is the link's; nothing is left behind then.
func New(l Link, o Options) (*Guest, error) {
	o.setDefaults()
	g := &Guest{
		opts:      o,
		link:      l,
		queue:     make(chan []byte, queueLen),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
		listeners: map[*Listener]struct{}{},
		neighbour: map[netip.Addr]net.HardwareAddr{},
	}
	err := l.Start(g.receive, func(err error) {
		g.err = err
		close(g.done)
	})
	if err != nil {
		return nil, err
	}
	g.wg.Go(g.process)
	return g, nil
}

func (o *Options) setDefaults() {
	o.Name, o.Timeout, o.MaxFrame = cmp.Or(o.Name, "guest"), cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.MaxFrame, frame.MaxStreamLen)
	if o.MAC == nil {
		n := guests.Add(1)
		o.MAC = net.HardwareAddr{0x52, 0x54, 0x00, byte(n >> 16), byte(n >> 8), byte(n)}
	}
}

// Attach plugs a Guest into a port of n. ctx bounds the attaching only.
func Attach(ctx context.Context, n network.Network, o Options) (*Guest, error) {
	o.setDefaults()
	return New(&portLink{ctx: ctx, network: n, name: o.Name, maxFrame: o.MaxFrame, closed: make(chan struct{})}, o)
}

// Dial connects a Guest to the stream socket of a daemon that may still be starting, within defaultTimeout.
func Dial(path string, o Options) (*Guest, error) {
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err == nil {
			return New(StreamLink(conn), o)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s within %s: %w", path, defaultTimeout, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// MAC is the address of the Guest's network card.
func (g *Guest) MAC() net.HardwareAddr { return g.opts.MAC }

// Addr is the IPv4 address and subnet that the Guest uses, invalid before DHCP or SetAddr.
func (g *Guest) Addr() netip.Prefix {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.addr
}

// SetAddr gives the Guest an address in a subnet and a gateway, as a static configuration does.
func (g *Guest) SetAddr(addr netip.Prefix, gateway netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addr, g.gateway = addr, gateway
	clear(g.neighbour)
}

// Done is closed when the link has ended: the daemon closed the connection, or the port died.
func (g *Guest) Done() <-chan struct{} { return g.done }

// Err tells why the link ended, nil while it has not. For a stream, io.EOF is an end at a frame boundary.
func (g *Guest) Err() error {
	select {
	case <-g.done:
		return g.err
	default:
		return nil
	}
}

// Close unplugs the Guest and waits for its goroutines. It may be called more than once.
func (g *Guest) Close() {
	g.mu.Lock()
	select {
	case <-g.stop:
	default:
		close(g.stop)
	}
	g.mu.Unlock()
	_ = g.link.Close()
	g.wg.Wait()
}

// Send sends frames as they are, without prefix, in one write or batch.
func (g *Guest) Send(frames ...[]byte) error {
	g.sendMu.Lock()
	defer g.sendMu.Unlock()
	if err := g.link.Send(frames...); err != nil {
		return fmt.Errorf("send %d frames: %w", len(frames), err)
	}
	return nil
}

// Port is the Guest's port of a network, nil when it has a socket.
func (g *Guest) Port() network.Port {
	if l, ok := g.link.(*portLink); ok {
		return l.port
	}
	return nil
}

// SetTap has tap see every frame first, on the link's goroutine and without a copy: it keeps none and does not block. A
// frame for which it returns true goes no further. nil takes the tap away. It is for counting at full speed.
func (g *Guest) SetTap(tap func(f []byte) bool) {
	if tap == nil {
		g.tap.Store(nil)
		return
	}
	g.tap.Store(&tap)
}

// receive is called by the link and does not block.
func (g *Guest) receive(f []byte) {
	if tap := g.tap.Load(); tap != nil && (*tap)(f) {
		return
	}
	select {
	case g.queue <- bytes.Clone(f):
	default:
	}
}

// process handles received frames until Close.
func (g *Guest) process() {
	for {
		select {
		case <-g.stop:
			return
		case f := <-g.queue:
			if !g.opts.Quiet {
				g.answer(f)
			}
			g.dispatch(f)
		}
	}
}

// answer replies to ARP and echo requests for the Guest's address.
func (g *Guest) answer(f []byte) {
	p, err := Parse(f)
	own := g.Addr().Addr()
	if err != nil || !own.IsValid() || p.DstIP != own || !g.accepts(p.Dst) {
		return
	}
	switch {
	case p.ARPOp == ARPRequest:
		_ = g.Send(EthernetFrame(p.SenderMAC, g.MAC(), TypeARP, ARPPacket(ARPReply, g.MAC(), own, p.SenderMAC, p.SrcIP)))
	case p.Proto == ProtoICMP && p.ICMPType == EchoRequest:
		reply := IPv4Packet(own, p.SrcIP, ProtoICMP, ICMPMessage(EchoReply, p.EchoID, p.EchoSeq, p.Data))
		_ = g.Send(EthernetFrame(p.Src, g.MAC(), TypeIPv4, reply))
	}
}

// accepts tells whether a network card that is not promiscuous takes frames to dst.
func (g *Guest) accepts(dst net.HardwareAddr) bool { return dst[0]&1 != 0 || bytes.Equal(dst, g.MAC()) }
