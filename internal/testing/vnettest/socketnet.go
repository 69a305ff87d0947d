// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// closeTimeout is how long a daemon may take to forget a client that has gone, answerTimeout how long to answer a new one.
const (
	closeTimeout  = 20 * time.Second
	answerTimeout = 20 * time.Second
)

// DaemonOptions describe a running daemon as a network.
type DaemonOptions struct {
	Socket   string     // its stream socket
	Gateway  netip.Addr // of its network
	MaxFrame int        // the longest frame that its network carries, in bytes
	// Transports are the ways to the daemon. Ports take turns over them; empty is the stream socket alone.
	Transports []Transport
}

// daemonNetwork makes a network of a daemon: a port is a client of it.
type daemonNetwork struct {
	o     DaemonOptions
	ports atomic.Uint32 // how many were attached

	witnesses witnesses

	mu     sync.Mutex
	closed bool
	open   map[*clientPort]struct{}
}

// SocketNetwork is the network behind the stream socket of a running daemon.
func SocketNetwork(path string, gateway netip.Addr, maxFrame int) network.Network {
	return DaemonNetwork(DaemonOptions{Socket: path, Gateway: gateway, MaxFrame: maxFrame})
}

// DaemonNetwork is the network behind the sockets of a running daemon, so that TestNetwork can be run on the whole of it.
// Its longest frame is one that reaches clients of all its transports. Since a daemon starts a client's port late, Attach
// asks for the MAC address of the gateway and waits for the answer. Since a datagram tells no end, closing a port makes the
// daemon send to the client that has gone, until it shows that it has forgotten it.
func DaemonNetwork(o DaemonOptions) network.Network {
	if len(o.Transports) == 0 {
		o.Transports = []Transport{StreamSocket(o.Socket)}
	}
	for _, t := range o.Transports {
		o.MaxFrame = min(o.MaxFrame, t.MaxFrame)
	}
	return &daemonNetwork{o: o, open: map[*clientPort]struct{}{}, witnesses: witnesses{socket: o.Socket, patience: closeTimeout}}
}

// clientPort is one client.
type clientPort struct {
	network *daemonNetwork
	link    fakeguest.Link
	mac     net.HardwareAddr // which the daemon has learned
	sink    frame.Sink
	ready   chan struct{} // closed at the first answer from the gateway

	waiting bool   // for that answer; for receive alone, as the next
	buf     []byte // one frame in wire form

	closing atomic.Bool
	dropped atomic.Uint64
	once    sync.Once
	ended   chan struct{} // closed when the link has ended
	endErr  error         // why; set before ended is closed

	failOnce sync.Once
	done     chan struct{}
	err      error // set before done is closed
}

// Info implements network.Network.
func (n *daemonNetwork) Info() network.Info {
	return network.Info{Backend: "daemon", Mode: network.ModeShared, Gateway: n.o.Gateway, MTU: 1500, MaxFrame: n.o.MaxFrame}
}

// Attach implements network.Network.
func (n *daemonNetwork) Attach(ctx context.Context, _ network.PortOptions, sink frame.Sink) (network.Port, error) {
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	if closed {
		return nil, network.ErrClosed
	}
	i := n.ports.Add(1)
	way := n.o.Transports[int(i)%len(n.o.Transports)]
	p, err := n.dial(ctx, way, sink)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", way.Name, err)
	}
	n.mu.Lock()
	if closed = n.closed; !closed {
		n.open[p] = struct{}{}
	}
	n.mu.Unlock()
	if closed {
		_ = p.Close()
		return nil, network.ErrClosed
	}
	return p, nil
}

func (n *daemonNetwork) dial(ctx context.Context, way Transport, sink frame.Sink) (*clientPort, error) {
	l, err := way.Dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &clientPort{
		network: n,
		link:    l,
		mac:     probeMAC(),
		sink:    sink,
		ready:   make(chan struct{}),
		waiting: true,
		ended:   make(chan struct{}),
		done:    make(chan struct{}),
	}
	if err := l.Start(p.receive, p.end); err != nil {
		_ = l.Close()
		return nil, err
	}
	if err := p.await(ctx); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// Close implements network.Network: every client leaves.
func (n *daemonNetwork) Close() error {
	n.mu.Lock()
	n.closed = true
	ports := slices.Collect(maps.Keys(n.open))
	clear(n.open)
	n.mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, len(ports))
	for i, p := range ports {
		if !p.closing.Load() {
			p.fail(network.ErrClosed)
		}
		wg.Go(func() { errs[i] = p.Close() })
	}
	wg.Wait()
	n.witnesses.close()
	return errors.Join(errs...)
}

// probes numbers the addresses from which ports ask for the gateway.
var probes atomic.Uint32

func probeMAC() net.HardwareAddr {
	i := probes.Add(1)
	return net.HardwareAddr{0x02, 'p', 'r', byte(i >> 16), byte(i >> 8), byte(i)}
}

// await asks for the gateway and waits for the answer. It asks once: the daemon may start a port late, but keeps what came
// before it.
func (p *clientPort) await(ctx context.Context) error {
	ask := fakeguest.EthernetFrame(fakeguest.Broadcast, p.mac, fakeguest.TypeARP,
		fakeguest.ARPPacket(fakeguest.ARPRequest, p.mac, netip.IPv4Unspecified(), make(net.HardwareAddr, 6), p.network.o.Gateway))
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := p.link.Send(ask); err != nil {
		return fmt.Errorf("ask for the gateway: %w", err)
	}
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("ask for the gateway: link ended: %w", p.err)
	case <-ctx.Done():
		return fmt.Errorf("ask for the gateway: %w", ctx.Err())
	}
}

// receive takes a frame from the link.
func (p *clientPort) receive(f []byte) {
	if p.waiting {
		if a, err := fakeguest.Parse(f); err == nil && a.ARPOp == fakeguest.ARPReply && slices.Equal(a.Dst, p.mac) {
			p.waiting = false
			close(p.ready)
		}
	}
	if !p.closing.Load() && len(f) <= p.sink.MaxFrame() {
		p.buf = frame.Append(p.buf[:0], f)
		p.sink.Deliver(frame.NewBatch(p.buf, 1))
	}
}

// end is told by the link that nothing comes any more.
func (p *clientPort) end(err error) {
	if !p.closing.Load() {
		p.fail(err)
	}
	p.endErr = err
	close(p.ended)
}

func (p *clientPort) fail(err error) {
	p.failOnce.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Send implements network.Port.
func (p *clientPort) Send(b frame.Batch) {
	if !p.closing.Load() {
		frames := make([][]byte, 0, b.Len())
		for it := b.Iter(); it.Next(); {
			frames = append(frames, it.Frame())
		}
		err := p.link.Send(frames...)
		switch {
		case err == nil:
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.fail(fmt.Errorf("the daemon does not read: %w", err))
		}
	}
	p.dropped.Add(uint64(b.Len()))
}

// Close implements network.Port: the client leaves, and Close waits until the daemon has forgotten it.
func (p *clientPort) Close() (err error) {
	p.once.Do(func() { err = p.leave() })
	return err
}

// leave ends a link whose daemon sees the end of its sending side in order: it waits for the daemon to close the other. Any
// other is closed.
func (p *clientPort) leave() error {
	p.closing.Store(true)
	defer func() {
		p.network.mu.Lock()
		delete(p.network.open, p)
		p.network.mu.Unlock()
	}()
	var forgotten error
	if l, ok := p.link.(interface{ CloseWrite() error }); ok && l.CloseWrite() == nil {
		select {
		case <-p.ended:
		case <-time.After(closeTimeout):
			forgotten = fmt.Errorf("the daemon did not close the connection within %s", closeTimeout)
		}
		_ = p.link.Close()
	} else {
		_ = p.link.Close()
		forgotten = p.network.witnesses.await(p.mac)
	}
	if <-p.ended; errors.Is(p.endErr, fakeguest.ErrBadFrame) {
		return p.endErr
	}
	return forgotten
}

// Info implements network.Port.
func (p *clientPort) Info() network.PortInfo {
	return network.PortInfo{MTU: 1500, MaxFrame: p.network.o.MaxFrame}
}

// MACs implements network.Port: what is behind a socket is not known.
func (p *clientPort) MACs() []network.MAC { return nil }

// Stats implements network.Port. Only frames sent after Close are counted.
func (p *clientPort) Stats() network.PortStats {
	s := network.PortStats{Drops: map[network.DropReason]uint64{}}
	if n := p.dropped.Load(); n > 0 {
		s.Drops[network.DropClosed] = n
	}
	return s
}

// Done implements network.Port.
func (p *clientPort) Done() <-chan struct{} { return p.done }

// Err implements network.Port.
func (p *clientPort) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}
