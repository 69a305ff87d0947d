// SPDX-License-Identifier: Apache-2.0

// Package vmnet is the network of macOS's vmnet.framework, in portable Go over the calls in api.
//
//	client ── port ── own interface ──────────┐
//	client ── port ── own interface ──────────┤  bridge of macOS ── host, NAT, DHCP
//	client ── port ─┬─ bridge ── the anchor ──┘
//	client ── port ─┘  the shared interface
//
// A port is a client's attachment. An interface is one of vmnet's that was started, with its reader and its health; what is
// written to it comes from a port's writer. Each client has an interface of its own, so that macOS delivers to it what it is to get
// and nothing else. One more, the anchor, is there from start to end: it keeps the gateway alive while there is no client. When
// macOS, which has few, gives no interface, a client shares the anchor with others through a bridge, until there is room again.
//
// What can fail is the framework's: an interface that dies is started again behind its client, a frame that is refused
// costs that frame, and a call that hangs is left behind. The clients stay connected.
package vmnet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A Network is a network of vmnet.framework. It implements network.Network.
type Network struct {
	opts   Options
	choice choice
	id     [16]byte // of the anchor; the clients' are derived from it
	ids    network.IDs
	log    *slog.Logger

	object   atomic.Pointer[api.Network] // nil when interfaces are plain
	info     network.Info
	writeMax int // of the first anchor, packets
	shared   sharedInterface

	ctx      context.Context // ends with the network
	cancel   context.CancelFunc
	starting chan struct{} // holds one for each start that is under way
	hurry    chan struct{} // closed when Close does not wait for stops any more
	work     sync.WaitGroup
	closing  sync.Once

	mu    sync.Mutex // for changes of ports, and the end of ctx
	ports atomic.Pointer[[]*port]

	anchor                                          atomic.Pointer[api.Params]
	own                                             atomic.Int64 // interfaces of clients
	starts, failures, restarts, exhausted, promoted atomic.Uint64

	lastFailure atomic.Pointer[error] // of a start

	wakes atomic.Uint64
	wake  atomic.Pointer[wakeUp] // the last one
}

var _ network.Network = (*Network)(nil)

// New starts the network and logs its parameters. ctx bounds the start alone.
func New(ctx context.Context, o Options) (*Network, error) {
	o.setDefaults()
	c, err := Choose(o, o.API.Features())
	if err != nil {
		return nil, err
	}
	n := &Network{opts: o, choice: c, log: o.Log, starting: make(chan struct{}, maxStarting), hurry: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.ports.Store(new([]*port))
	n.shared.net = n
	n.identify()
	n.ids.Init(n.id)
	n.log.Info("initializing network", "mode", string(o.Mode))
	if o.Interface != "" {
		n.log.Info("using network interface", "name", o.Interface)
		if c.api == apiNetwork && o.Mode == network.ModeHost {
			n.log.Warn("--vmnet-interface has no effect: a network in host mode has no way out")
		}
	}
	anchor, err := n.begin(ctx)
	if err != nil {
		n.cancel()
		return nil, err // as it is: socket_vmnet's log line begins with the call
	}
	n.log.Info("vmnet network started", "api", n.choice.api, "reason", n.choice.why)
	n.writeMax = anchor.writeMax
	n.info = n.describe(anchor)
	n.remember()
	n.shared.anchor.Store(anchor)
	n.work.Go(func() { n.shared.keep(anchor) })
	n.work.Go(n.watchSleep)
	return n, nil
}

// identify settles the anchor's id: the one asked for, or the last one, or a new one that is kept.
func (n *Network) identify() {
	if n.id = n.opts.InterfaceID; n.id != [16]byte{} {
		return
	}
	if n.opts.Identity != nil {
		if id, ok := n.opts.Identity.AnchorID(); ok {
			n.id = id
			return
		}
	}
	n.id = network.NewID()
	if n.opts.Identity != nil {
		if err := n.opts.Identity.SaveAnchorID(n.id); err != nil {
			n.log.Warn("the interface's identity is not kept", "error", err)
		}
	}
}

// remember keeps the subnet for the next start.
func (n *Network) remember() {
	s := n.info.Subnet
	if n.opts.Identity == nil || !s.IsValid() || n.opts.Mode == network.ModeBridged {
		return
	}
	if last, ok := n.opts.Identity.Subnet(); ok && last == s {
		return
	}
	if err := n.opts.Identity.SaveSubnet(s); err != nil {
		n.log.Warn("the network's subnet is not kept", "error", err)
	}
}

// Info implements network.Network.
func (n *Network) Info() network.Info { return n.info }

// Attach implements network.Network. A client whose interface cannot be started shares the anchor.
func (n *Network) Attach(ctx context.Context, o network.PortOptions, toClient frame.Sink) (network.Port, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := newPort(n, o, toClient)
	if err := n.register(p, o); err != nil {
		p.cancel()
		return nil, err
	}
	release := context.AfterFunc(ctx, p.cancel)
	err := p.first()
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		go p.keep()
		return p, nil
	}
	p.cancel()
	go p.keep() // ends at once
	_ = p.Close()
	switch {
	case n.ctx.Err() != nil:
		return nil, network.ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("attach %s: %w", o.Name, err)
}

// register gives p an identity that no other live port has, and puts it on the list.
func (n *Network) register(p *port, o network.PortOptions) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return network.ErrClosed
	}
	if p.id, err = n.ids.Take(o); err != nil {
		return fmt.Errorf("attach %s: %w", p.name, err)
	}
	n.setPorts(append(slices.Clone(*n.ports.Load()), p))
	return nil
}

func (n *Network) setPorts(ports []*port) { n.ports.Store(&ports) }

// forget takes p off the list.
func (n *Network) forget(p *port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setPorts(slices.DeleteFunc(slices.Clone(*n.ports.Load()), func(q *port) bool { return q == p }))
	n.ids.Free(p.id)
}

// Times that Close takes at most, whatever the framework does: for the ports, and in all.
const (
	closePorts = 900 * time.Millisecond
	closeAll   = 1400 * time.Millisecond
)

// Close implements network.Network. In order: no client attaches any more, the clients' interfaces stop, the anchor stops, the
// network object is released. What hangs is left behind.
func (n *Network) Close() error {
	n.closing.Do(n.end)
	return nil
}

func (n *Network) end() {
	n.mu.Lock()
	n.cancel() // ends starts that are under way, and every keeper
	ports := *n.ports.Load()
	n.mu.Unlock()
	t := time.AfterFunc(closePorts, func() { close(n.hurry) })
	defer t.Stop()
	rest := time.NewTimer(closeAll)
	defer rest.Stop()
	var all sync.WaitGroup
	for _, p := range ports {
		all.Go(func() { _ = p.Close() })
	}
	all.Wait() // bounded by hurry, for sinks do not block
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if anchor := n.shared.close(); anchor != nil {
			anchor.stop()
		}
		n.work.Wait() // that one, those that others left behind, and what comes too late
		n.release()
	}()
	select {
	case <-stopped:
	case <-rest.C:
		n.log.Warn("vmnet.framework does not answer: the network is left to the end of the process")
	}
}

// await waits for c, but not longer than a stop may take.
func (n *Network) await(c <-chan struct{}) bool {
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-c:
	case <-t.C:
		return false
	case <-n.hurry:
		return false
	}
	return true
}
