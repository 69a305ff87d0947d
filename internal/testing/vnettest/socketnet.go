// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// closeTimeout is how long a daemon may take to forget a client that has gone, answerTimeout how long to answer a new one.
const closeTimeout, answerTimeout = 20 * time.Second, 20 * time.Second

// DaemonOptions describe a running daemon as a network.
type DaemonOptions struct {
	Socket     string      // its stream socket
	Gateway    netip.Addr  // of its network
	MaxFrame   int         // the longest frame that its network carries, in bytes
	Transports []Transport // the ways to the daemon, over which ports take turns
}

// daemonNetwork makes a network of a daemon: a port is a client of it.
type daemonNetwork struct {
	o         DaemonOptions
	ports     atomic.Uint32 // how many were attached
	witnesses witnesses

	attaching sync.RWMutex // held by Attach, and to write by Close
	closed    bool
	open      sync.Map // of the clientPorts that have not left
}

// DaemonNetwork is the network behind the sockets of a running daemon, so that TestNetwork can be run on the whole of it.
// Its longest frame is one that reaches clients of all its transports. Since a daemon starts a client's port late, Attach
// asks for the MAC address of the gateway and waits for the answer. Since a datagram tells no end, closing a port makes the
// daemon send to the client that has gone, until it shows that it has forgotten it.
func DaemonNetwork(o DaemonOptions) network.Network {
	for _, t := range o.Transports {
		o.MaxFrame = min(o.MaxFrame, t.MaxFrame)
	}
	return &daemonNetwork{o: o, witnesses: witnesses{socket: o.Socket}}
}

// clientPort is one client: a guest that does nothing by itself. Done is closed when it leaves, too.
type clientPort struct {
	*fakeguest.Guest // its MAC address is the one that the daemon has learned
	network          *daemonNetwork
	link             fakeguest.Link
	sink             frame.Sink
	buf              []byte // one frame in wire form, for receive alone

	closing atomic.Bool
	dropped atomic.Uint64
	once    sync.Once
	unread  atomic.Bool // the daemon does not read
}

// Info implements network.Network.
func (n *daemonNetwork) Info() network.Info {
	return network.Info{Backend: "daemon", Mode: network.ModeShared, Gateway: n.o.Gateway, MTU: 1500, MaxFrame: n.o.MaxFrame}
}

// Attach implements network.Network.
func (n *daemonNetwork) Attach(ctx context.Context, _ network.PortOptions, sink frame.Sink) (network.Port, error) {
	n.attaching.RLock()
	defer n.attaching.RUnlock()
	if n.closed {
		return nil, network.ErrClosed
	}
	way := n.o.Transports[int(n.ports.Add(1))%len(n.o.Transports)]
	p, err := n.dial(ctx, way, sink)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", way.Name, err)
	}
	return p, nil
}

// dial asks for the gateway once: the daemon may start a port late, but keeps what came before it.
func (n *daemonNetwork) dial(ctx context.Context, way Transport, sink frame.Sink) (*clientPort, error) {
	l, err := way.Dial(ctx)
	if err != nil {
		return nil, err
	}
	g, err := fakeguest.New(l, fakeguest.Options{Quiet: true, Timeout: answerTimeout})
	if err != nil {
		return nil, err
	}
	p := &clientPort{Guest: g, network: n, link: l, sink: sink}
	n.open.Store(p, nil)
	if _, err := g.Resolve(n.o.Gateway); err != nil {
		_ = p.Close()
		return nil, err
	}
	g.SetTap(p.receive)
	return p, nil
}

// Close implements network.Network: every client leaves.
func (n *daemonNetwork) Close() (err error) {
	n.attaching.Lock()
	defer n.attaching.Unlock()
	n.closed = true
	for p := range n.open.Range {
		err = errors.Join(err, p.(*clientPort).Close())
	}
	n.witnesses.close()
	return err
}

// receive is the guest's tap.
func (p *clientPort) receive(f []byte) bool {
	if !p.closing.Load() && len(f) <= p.sink.MaxFrame() {
		p.buf = frame.Append(p.buf[:0], f)
		p.sink.Deliver(frame.NewBatch(p.buf, 1))
	}
	return true
}

// Send implements network.Port.
func (p *clientPort) Send(b frame.Batch) {
	if !p.closing.Load() {
		frames := make([][]byte, 0, b.Len())
		for it := b.Iter(); it.Next(); {
			frames = append(frames, it.Frame())
		}
		err := p.Guest.Send(frames...)
		if err == nil {
			return
		}
		p.unread.Store(p.unread.Load() || errors.Is(err, os.ErrDeadlineExceeded))
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
func (p *clientPort) leave() (err error) {
	p.closing.Store(true)
	defer p.network.open.Delete(p)
	if l, ok := p.link.(interface{ CloseWrite() error }); ok && l.CloseWrite() == nil {
		select {
		case <-p.Done():
		case <-time.After(closeTimeout):
			err = fmt.Errorf("the daemon did not close the connection within %s", closeTimeout)
		}
		p.Guest.Close()
	} else {
		p.Guest.Close()
		err = p.network.witnesses.await(p.MAC())
	}
	switch <-p.Done(); {
	case errors.Is(p.Err(), fakeguest.ErrBadFrame):
		return p.Err()
	case p.unread.Load():
		return errors.New("the daemon does not read")
	}
	return err
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
