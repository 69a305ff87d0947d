// SPDX-License-Identifier: Apache-2.0

package vmnet

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/bridge"
	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gate"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// A port is one client's attachment. It outlives the interface behind it:
//
//	own interface --fault--> down --started again--> own interface
//	                         down --start failed--> sharing the anchor
//	sharing the anchor --an interface is to be had--> own interface
//	any --Close--> closed
//
// Its keeper, a goroutine, is the only one to change what is behind it.
type port struct {
	net   *Network
	name  string
	key   string   // unique among the live ports
	id    [16]byte // of the own interface
	sink  frame.Sink
	limit int        // of the sink, bytes
	macs  []vnet.MAC // that were behind the client's former port

	counts counters
	gate   gate.Gate            // deliveries to the sink
	line   atomic.Pointer[line] // nil while down
	facts  atomic.Pointer[vnet.PortInfo]

	ctx     context.Context // ends with the port
	cancel  context.CancelFunc
	closing atomic.Bool
	kept    chan struct{} // closed when the keeper has ended
	room    chan struct{} // told to try for an own interface
	waiting backoff       // used by the keeper
	resting atomic.Bool   // room is for others: the own interface has died, and not for lack of room

	done     chan struct{} // closed when the port has died by itself
	failOnce sync.Once
	err      error // set before done is closed

	mu      sync.Mutex
	bridged *bridge.Port // while the anchor is shared
	past    past
}

// A past is what the bridge's ports of one client counted that are closed.
type past struct {
	drops            map[vnet.DropReason]uint64
	moved, unlearned uint64
}

func (p *past) add(s vnet.PortStats) {
	add(p.drops, s.Drops)
	p.moved += s.Moved
	p.unlearned += s.Unlearned
}

// A line is what is behind a port: a device of its own, or a port of the bridge that shares the anchor.
type line struct {
	sends  gate.Gate
	out    *outlet
	dev    *device      // own
	shared *bridge.Port // or shared
	seen   seenMACs     // the client's addresses
}

var _ vnet.Port = (*port)(nil)

func newPort(n *Network, name string, sink frame.Sink) *port {
	p := &port{
		net: n, name: name, sink: sink, limit: min(sink.MaxFrame(), frame.MaxLen),
		past: past{drops: map[vnet.DropReason]uint64{}},
		kept: make(chan struct{}), room: make(chan struct{}, 1), done: make(chan struct{}),
	}
	p.gate.Init()
	p.ctx, p.cancel = context.WithCancel(n.ctx)
	return p
}

// Send implements vnet.Port.
func (p *port) Send(b frame.Batch) {
	faults.In("vmnet.send", b.Bytes())
	if p.closing.Load() {
		p.counts.closed.Add(uint64(b.Len()))
		return
	}
	for l := p.line.Load(); l != nil; {
		if l.sends.Enter() {
			l.send(b)
			return
		}
		gone := l // the port has moved away from it since
		if l = p.line.Load(); l == gone {
			break
		}
	}
	p.counts.down.Add(uint64(b.Len()))
}

// send sends b; the caller has entered l.
func (l *line) send(b frame.Batch) {
	defer l.sends.Leave()
	if l.shared != nil {
		l.shared.Send(b)
		return
	}
	if !l.dev.writes.Enter() {
		l.out.counts.down.Add(uint64(b.Len()))
		return
	}
	defer l.dev.writes.Leave()
	l.seen.note(b)
	l.out.send(l.dev, b)
}

// deliver hands b to the sink, in which no frame is longer than longest bytes.
func (p *port) deliver(b frame.Batch, longest int) {
	if !p.gate.Enter() {
		return
	}
	defer p.gate.Leave()
	if longest <= p.limit {
		p.sink.Deliver(b)
		return
	}
	p.deliverCut(b)
}

// deliverCut delivers what the sink takes of b, and counts the rest.
func (p *port) deliverCut(b frame.Batch) {
	b.Runs(func(f []byte) bool {
		if len(f) <= p.limit {
			return true
		}
		p.counts.lostOversize.Add(1)
		return false
	}, p.sink.Deliver)
}

// caught ends the port after a panic; it is deferred.
func (p *port) caught(doing string) {
	if r := recover(); r != nil {
		p.panicked(doing, r)
	}
}

// panicked ends the port.
func (p *port) panicked(doing string, r any) {
	p.net.log.Error("internal error: this client's port ends, the others run on; please report it",
		"client", p.name, "doing", doing, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	p.closing.Store(true)
	p.fail(fmt.Errorf("panic while %s: %v", doing, r))
	p.gate.Shut()
	p.cancel()
}

func (p *port) fail(err error) {
	p.failOnce.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Done implements vnet.Port.
func (p *port) Done() <-chan struct{} { return p.done }

// Err implements vnet.Port.
func (p *port) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Info implements vnet.Port.
func (p *port) Info() vnet.PortInfo { return *p.facts.Load() }

// Stats implements vnet.Port.
func (p *port) Stats() vnet.PortStats {
	s := vnet.PortStats{Drops: map[vnet.DropReason]uint64{}, Lost: map[vnet.DropReason]uint64{}}
	p.mu.Lock()
	add(s.Drops, p.past.drops)
	s.Moved, s.Unlearned = p.past.moved, p.past.unlearned
	if p.bridged != nil {
		now := p.bridged.Stats()
		add(s.Drops, now.Drops)
		s.MACs, s.Moved, s.Unlearned = now.MACs, s.Moved+now.Moved, s.Unlearned+now.Unlearned
	} else if l := p.line.Load(); l != nil {
		s.MACs = l.seen.count()
	}
	p.mu.Unlock()
	c := &p.counts
	for reason, n := range map[vnet.DropReason]*atomic.Uint64{
		vnet.DropHairpin: &c.hairpin, vnet.DropOversize: &c.oversize, vnet.DropRefused: &c.refused, vnet.DropExhausted: &c.exhausted,
		vnet.DropDown: &c.down, vnet.DropClosed: &c.closed,
	} {
		add(s.Drops, map[vnet.DropReason]uint64{reason: n.Load()})
	}
	add(s.Lost, map[vnet.DropReason]uint64{vnet.DropOversize: c.lostOversize.Load(), dropRunt: c.lostOdd.Load()})
	return s
}

// MACs implements vnet.Port. Only the bridge of a shared interface needs them.
func (p *port) MACs() []vnet.MAC {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bridged == nil {
		return nil
	}
	return p.bridged.MACs()
}

// dropRunt counts packets that are shorter than an Ethernet header, or longer than macOS said they would be.
const dropRunt vnet.DropReason = "drop_runt"

func add(sum, more map[vnet.DropReason]uint64) {
	for reason, n := range more {
		if n > 0 {
			sum[reason] += n
		}
	}
}

// Close implements vnet.Port. The interface is stopped, but not waited for longer than stopTimeout.
func (p *port) Close() error {
	p.closing.Store(true)
	p.cancel()
	<-p.gate.Shut() // the sink is called no more, whatever the framework does
	p.net.awaitStop(p.kept, p.name)
	p.net.forget(p)
	return nil
}
