// SPDX-License-Identifier: Apache-2.0

// Package vmnet is the network of macOS's vmnet.framework, in portable Go over the calls in api.
//
//	client ── port ── own interface ───────┐
//	client ── port ── own interface ───────┤  bridge of macOS ── host, NAT, DHCP
//	client ── port ─┬─ bridge ── anchor ───┘
//	client ── port ─┘
//
// Each client has a vmnet interface of its own, so that macOS delivers to it what it is to get and nothing else. One more,
// the anchor, is there from start to end: it keeps the gateway alive while there is no client. When no interface can be
// had, for macOS has few, a client shares the anchor with others through a bridge, until there is room again.
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
	"github.com/socket-vmnet2/socket_vmnet2/internal/ifid"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// A Network is a network of vmnet.framework. It implements vnet.Network.
type Network struct {
	opts   Options
	choice Choice
	id     [16]byte // of the anchor; the clients' are derived from it
	log    *slog.Logger

	ref      atomic.Pointer[netRef] // the network object, nil when interfaces are plain
	info     vnet.NetworkInfo
	writeMax int // of the first anchor, packets
	hub      hub

	ctx      context.Context // ends with the network
	cancel   context.CancelFunc
	starting chan struct{} // holds one for each start that is under way
	hurry    chan struct{} // closed when Close does not wait for stops any more
	work     sync.WaitGroup
	kept     chan struct{} // closed when the hub's keeper has ended

	closing sync.Once
	ended   chan struct{} // closed when Close is done

	mu     sync.Mutex
	closed bool
	ports  map[string]*port        // by key
	list   atomic.Pointer[[]*port] // the same, for who must not wait

	anchor                                          atomic.Pointer[api.Params]
	ownCount                                        atomic.Int64
	starts, failures, restarts, exhausted, promoted atomic.Uint64

	lastFailure atomic.Pointer[error] // of a start
}

var _ vnet.Network = (*Network)(nil)

// New starts the network and logs its parameters. ctx bounds the start alone.
func New(ctx context.Context, o Options) (*Network, error) {
	o.setDefaults()
	c, err := Choose(o, o.API.Features())
	if err != nil {
		return nil, err
	}
	n := &Network{
		opts: o, choice: c, log: o.Log, ports: map[string]*port{},
		starting: make(chan struct{}, maxStarting),
		hurry:    make(chan struct{}), kept: make(chan struct{}), ended: make(chan struct{}),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.hub.net = n
	n.list.Store(new([]*port))
	n.identify()
	n.log.Info("initializing network", "mode", string(o.Mode))
	if o.Interface != "" {
		n.log.Info("using network interface", "name", o.Interface)
		if c.API == APINetwork && o.Mode == vnet.ModeHost {
			n.log.Warn("--vmnet-interface has no effect: a network in host mode has no way out")
		}
	}
	d, err := n.begin(ctx)
	if err != nil {
		n.cancel()
		return nil, err // as it is: socket_vmnet's log line begins with the call
	}
	n.log.Info("vmnet network started", "api", n.choice.API, "reason", n.choice.Why)
	n.writeMax = d.writeMax
	n.info = n.describe(d)
	n.remember()
	n.hub.set(d)
	go func() {
		defer close(n.kept)
		n.hub.keep(n.ctx, d)
	}()
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
	n.id = ifid.New()
	if n.opts.Identity != nil {
		if err := n.opts.Identity.SaveAnchorID(n.id); err != nil {
			n.log.Warn("the interface's identity is not kept", "error", err)
		}
	}
}

// remember keeps the subnet for the next start.
func (n *Network) remember() {
	s := n.info.Subnet
	if n.opts.Identity == nil || !s.IsValid() || n.opts.Mode == vnet.ModeBridged {
		return
	}
	if last, ok := n.opts.Identity.Subnet(); ok && last == s {
		return
	}
	if err := n.opts.Identity.SaveSubnet(s); err != nil {
		n.log.Warn("the network's subnet is not kept", "error", err)
	}
}

// Info implements vnet.Network.
func (n *Network) Info() vnet.NetworkInfo { return n.info }

// Attach implements vnet.Network. A client for whom no interface can be started shares the anchor.
func (n *Network) Attach(ctx context.Context, o vnet.PortOptions, toClient frame.Sink) (vnet.Port, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := newPort(n, o.Name, toClient)
	p.macs = o.MACs
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
	p.closing.Store(true)
	p.cancel()
	p.drop(p.line.Swap(nil))
	close(p.kept)
	n.forget(p)
	switch {
	case n.ctx.Err() != nil:
		return nil, vnet.ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("attach %s: %w", o.Name, err)
}

// register gives p a key and an identity that no other live port has.
func (n *Network) register(p *port, o vnet.PortOptions) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return vnet.ErrClosed
	}
	if o.InterfaceID != (ifid.ID{}) {
		return n.registerAs(p, o.InterfaceID)
	}
	p.key = o.ID
	for i := 1; p.key == "" || n.ports[p.key] != nil; i++ {
		if o.ID == "" {
			p.key = fmt.Sprintf("slot %d", i)
		} else {
			p.key = fmt.Sprintf("%s #%d", o.ID, i+1)
		}
	}
	p.id = ifid.Derive(n.id, p.key)
	n.add(p)
	return nil
}

// registerAs gives p the identity that its client asks for. The caller holds mu.
func (n *Network) registerAs(p *port, id ifid.ID) error {
	taken := id == n.id
	for _, other := range n.ports {
		taken = taken || other.id == id
	}
	if taken {
		return fmt.Errorf("attach %s as interface %s: %w", p.name, ifid.String(id), vnet.ErrIDInUse)
	}
	p.id, p.key = id, "interface "+ifid.String(id)
	n.add(p)
	return nil
}

// add puts p on the list. The caller holds mu.
func (n *Network) add(p *port) {
	n.ports[p.key] = p
	list := append(slices.Clone(*n.list.Load()), p)
	n.list.Store(&list)
}

// forget takes p off the list.
func (n *Network) forget(p *port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[p.key] == p {
		delete(n.ports, p.key)
		list := slices.DeleteFunc(slices.Clone(*n.list.Load()), func(q *port) bool { return q == p })
		n.list.Store(&list)
	}
}

// Times that Close takes at most, whatever the framework does: for the ports, and in all.
const (
	closePorts = 900 * time.Millisecond
	closeAll   = 1400 * time.Millisecond
)

// Close implements vnet.Network. In order: nobody attaches any more, the clients' interfaces stop, the anchor stops, the
// network object is released. What hangs is left behind.
func (n *Network) Close() error {
	n.closing.Do(func() { go n.end() })
	<-n.ended
	return nil
}

func (n *Network) end() {
	defer close(n.ended)
	ports := n.shutDoor()
	n.cancel() // ends starts that are under way, and every keeper
	t := time.AfterFunc(closePorts, func() { close(n.hurry) })
	defer t.Stop()
	rest := time.NewTimer(closeAll)
	defer rest.Stop()
	var all sync.WaitGroup
	for _, p := range ports {
		p.fail(vnet.ErrClosed)
		all.Go(func() { _ = p.Close() })
	}
	all.Wait() // bounded by hurry, for sinks do not block
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-n.kept
		if d := n.hub.close(); d != nil {
			<-d.stop()
		}
		n.work.Wait() // stops that others left behind, interfaces that came too late
		n.ref.Load().end()
	}()
	select {
	case <-stopped:
	case <-rest.C:
		n.log.Warn("vmnet.framework does not answer: the network is left to the end of the process")
	}
}

// shutDoor lets nobody attach any more and returns who has.
func (n *Network) shutDoor() (ports []*port) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	for _, p := range n.ports {
		ports = append(ports, p)
	}
	return ports
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

// awaitStop is await for a client's port, with a warning.
func (n *Network) awaitStop(c <-chan struct{}, who string) {
	if !n.await(c) {
		n.log.Warn("vmnet.framework does not stop an interface: it is left behind", "client", who)
	}
}
