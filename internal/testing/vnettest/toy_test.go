// SPDX-License-Identifier: Apache-2.0

package vnettest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// faults break a toy network in one way each, to prove that the suite notices.
type faults struct {
	floodUnicast     bool // unicast to a known address reaches all ports
	loseUnknown      bool
	reorder          bool // the first two frames of a batch change places
	cut              bool // a frame too long for the sink arrives shortened
	keepMACs         bool // addresses stay with a closed port
	lock             bool // one lock is held while a sink is called
	retain           bool // frames are delivered once more with the next batch
	scribble         bool // the sender's buffer is written to
	miscount         bool // a batch tells a wrong number of frames
	deliverLate      bool // a frame may be delivered after Close returned
	closeNoWait      bool // Close does not wait for a delivery in flight
	closePanics      bool // a second Close panics
	leak             bool // every port leaves a goroutine behind
	otherError       bool // Attach on a closed network returns another error
	silentEnd        bool // ports of a closed network carry nothing, but Done stays open
	noErr            bool // Err is nil after Done
	earlyDone        bool // Done is closed from the start
	uncountedDrop    bool // frames sent after Close are not counted
	lyingInfo        bool // PortInfo promises longer frames than the network carries
	attachLosesFirst bool // a frame sent at once after Attach is lost
	endsWithContext  bool // a port closes when the context of its Attach ends
}

// toyMax is the longest frame of a toy network, in bytes.
const toyMax = frame.MaxLen

// toy is the plainest network: a map and a lock. It keeps every rule of the contracts, unless told otherwise.
type toy struct {
	faults

	mu     sync.RWMutex
	ports  []*toyPort
	owner  map[string]*toyPort
	closed bool

	deliver sync.Mutex // for lock
}

func newToy(f faults) *toy {
	return &toy{faults: f, owner: map[string]*toyPort{}}
}

type toyPort struct {
	n    *toy
	sink frame.Sink
	done chan struct{}

	mu      sync.Mutex
	idle    *sync.Cond
	flying  int
	closed  bool
	died    bool
	closes  int
	dropped uint64
	sent    int
	kept    [][]byte // for retain
}

func (n *toy) Info() network.Info {
	return network.Info{Backend: "toy", Mode: network.ModeHost, MTU: toyMax - 14, MaxFrame: toyMax}
}

func (n *toy) Attach(ctx context.Context, _ network.PortOptions, sink frame.Sink) (network.Port, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed && n.otherError:
		return nil, context.Canceled
	case n.closed:
		return nil, network.ErrClosed
	}
	p := &toyPort{n: n, sink: sink, done: make(chan struct{})}
	p.idle = sync.NewCond(&p.mu)
	n.ports = append(slices.Clone(n.ports), p)
	if n.leak {
		go func() { time.Sleep(2 * time.Second) }()
	}
	if n.earlyDone {
		close(p.done)
	}
	if n.endsWithContext {
		context.AfterFunc(ctx, func() { _ = p.Close() })
	}
	return p, nil
}

func (n *toy) Close() error {
	n.mu.Lock()
	n.closed = true
	ports := n.ports
	n.mu.Unlock()
	for _, p := range ports {
		p.mu.Lock()
		first := !p.died && !p.closed
		p.died = true
		p.mu.Unlock()
		_ = p.shut()
		if first && !n.silentEnd && !n.earlyDone {
			close(p.done)
		}
	}
	return nil
}

func (p *toyPort) Info() network.PortInfo {
	i := network.PortInfo{MTU: toyMax - 14, MaxFrame: toyMax}
	if p.n.lyingInfo {
		i.MaxFrame = 2 * toyMax
	}
	return i
}

func (p *toyPort) Done() <-chan struct{} { return p.done }

func (p *toyPort) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.died && !p.n.noErr {
		return network.ErrClosed
	}
	return nil
}

func (p *toyPort) MACs() []network.MAC { return nil }

func (p *toyPort) Stats() network.PortStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := network.PortStats{Drops: map[network.DropReason]uint64{}}
	if p.dropped > 0 && !p.n.uncountedDrop {
		s.Drops[network.DropClosed] = p.dropped
	}
	return s
}

func (p *toyPort) Close() error {
	p.mu.Lock()
	p.closes++
	again := p.closes > 1
	p.mu.Unlock()
	if again && p.n.closePanics {
		panic("closed twice")
	}
	return p.shut()
}

// shut detaches p and waits until nothing is delivered to it.
func (p *toyPort) shut() error {
	p.n.mu.Lock()
	p.n.ports = slices.DeleteFunc(slices.Clone(p.n.ports), func(q *toyPort) bool { return q == p })
	for mac, owner := range p.n.owner {
		if owner == p && !p.n.keepMACs {
			delete(p.n.owner, mac)
		}
	}
	p.n.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.flying > 0 && !p.n.closeNoWait {
		p.idle.Wait()
	}
	return nil
}

func (p *toyPort) Send(b frame.Batch) {
	n := p.n
	p.mu.Lock()
	p.sent += b.Len()
	lost := n.attachLosesFirst && p.sent == b.Len()
	if p.closed {
		p.dropped += uint64(b.Len())
		lost = true
	}
	p.mu.Unlock()
	if lost {
		return
	}
	var frames [][]byte
	for it := b.Iter(); it.Next(); {
		frames = append(frames, it.Frame())
	}
	if n.reorder && len(frames) > 1 {
		frames[0], frames[1] = frames[1], frames[0]
	}
	if n.retain {
		frames, p.kept = slices.Concat(p.kept, frames), frames
	}
	for _, f := range frames {
		for _, q := range p.destinations(f) {
			q.take(f)
		}
	}
	if n.scribble {
		b.Bytes()[len(b.Bytes())-1] ^= 0xff
	}
}

// destinations learns the source of f and looks up where it goes.
func (p *toyPort) destinations(f []byte) (to []*toyPort) {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if f[6]&1 == 0 {
		n.owner[string(f[6:12])] = p
	}
	ports := n.ports
	if q := n.owner[string(f[:6])]; q != nil && !n.floodUnicast {
		if q == p {
			return nil
		}
		return []*toyPort{q}
	}
	if f[0]&1 == 0 && n.loseUnknown {
		return nil
	}
	for _, q := range ports {
		if q != p {
			to = append(to, q)
		}
	}
	return to
}

// take delivers f to p's sink.
func (p *toyPort) take(f []byte) {
	n := p.n
	if limit := p.sink.MaxFrame(); len(f) > limit {
		if !n.cut {
			return
		}
		f = f[:limit]
	}
	p.mu.Lock()
	if p.closed && !n.keepMACs {
		p.mu.Unlock()
		return
	}
	p.flying++
	p.mu.Unlock()
	if !n.deliverLate {
		p.put(f)
		return
	}
	f = bytes.Clone(f)
	p.landed()
	go func() {
		time.Sleep(2 * time.Millisecond)
		p.sink.Deliver(frame.NewBatch(frame.Append(nil, f), 1))
	}()
}

// put calls the sink.
func (p *toyPort) put(f []byte) {
	if p.n.lock {
		p.n.deliver.Lock()
		defer p.n.deliver.Unlock()
	}
	count := 1
	if p.n.miscount {
		count = 2
	}
	p.sink.Deliver(frame.NewBatch(frame.Append(nil, f), count))
	p.landed()
}

func (p *toyPort) landed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flying--
	p.idle.Broadcast()
}
