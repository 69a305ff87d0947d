// SPDX-License-Identifier: Apache-2.0

// Package bridge is a learning Ethernet bridge between ports. It has no goroutine and no queue of its own: a frame is
// carried to its destination's sink by the goroutine that brought it.
//
// Unicast to a known address goes to one port; broadcast, multicast and unknown addresses go to all others, within a flood
// budget per source port. The last port to send from an address owns it at once, as in the bridges of the kernels. A
// frame is never sent back to the port it came from. 01:80:C2:00:00:0x is forwarded like any multicast. Isolated ports
// reach, and are reached by, only those that are not.
package bridge

import (
	"cmp"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// Defaults and limits.
const (
	// maxMACs is how many addresses are learned behind one port. Frames from further ones are forwarded, not learned, and
	// counted, so that no port can fill the table.
	maxMACs = 256
	// maxTrustedMACs is the same for a trusted port, behind which there may be a whole network.
	maxTrustedMACs = 16 * maxMACs
	// defaultStormRate is the flood budget of a source port in frames a second, counted before they are multiplied.
	defaultStormRate = 50_000
	// defaultStormBurst is how many frames may be flooded at once, in frames.
	defaultStormBurst = 5_000
	// maxAge is how long an address is remembered, in seconds: the default of IEEE 802.1D.
	maxAge = 300
	// aloneTime is for how long a client must have sent to one other only to be held for it: its other flows do not suffer from one
	// that is slow on purpose.
	aloneTime = 10 * time.Millisecond
)

// Options set up a Bridge. The zero value is usable.
type Options struct {
	StormRate  int // frames a second; 0 = defaultStormRate
	StormBurst int // frames; 0 = defaultStormBurst
	Log        *slog.Logger
	// Find is asked where an address is that no port has sent from, as 48 bits. nil, or the result nil: it is not known, and the
	// frame is flooded. It is called by Send and must not wait.
	Find func(mac uint64) *Port
	// Now is a monotonic clock, time since an arbitrary start; nil = the system's.
	Now func() time.Duration
}

// PortOptions describe a port.
type PortOptions struct {
	Name string // for logs
	// Source is what a sink is told that wants to know where frames come from.
	Source any
	// MACs are learned from the start, as if a frame had come from each.
	MACs []network.MAC
	// StaticMACs belong to the port from the start, do not age and are never learned elsewhere.
	StaticMACs []net.HardwareAddr
	// KnownOnly keeps unknown unicast from being flooded to the port: it gets frames for its own addresses, broadcast and
	// multicast.
	KnownOnly bool
	// Trusted frees what the port sends from the flood budget, has more addresses learned behind it, and none warned of that comes
	// or goes: others are behind it, which may move.
	Trusted bool
	// Isolated keeps frames from going to other isolated ports, floods included.
	Isolated bool
	// Hold is that of network.PortOptions.
	Hold func(frame.Bounded)
}

// A sourceSink is a sink that wants to know where frames come from. The bridge calls DeliverFrom in place of Deliver, by
// the same rules.
type sourceSink interface {
	frame.Sink
	DeliverFrom(source any, b frame.Batch)
}

// A Bridge joins ports.
type Bridge struct {
	opts  Options
	table macTable
	ports atomic.Pointer[[]*Port] // replaced when one comes or goes

	mu     sync.Mutex // guards what follows, and changes of ports
	closed bool
}

// New makes a bridge without ports.
func New(o Options) *Bridge {
	o.StormRate, o.StormBurst = cmp.Or(o.StormRate, defaultStormRate), cmp.Or(o.StormBurst, defaultStormBurst)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	b := &Bridge{opts: o, table: macTable{entries: map[macAddr]*entry{}}}
	b.ports.Store(new([]*Port))
	return b
}

// Attach adds a port whose frames go to sink. It returns network.ErrClosed after Close.
func (b *Bridge) Attach(o PortOptions, sink frame.Sink) (*Port, error) {
	p := &Port{
		br:       b,
		opts:     o,
		sink:     sink,
		maxFrame: sink.MaxFrame(),
		storm:    rate.NewLimiter(rate.Limit(b.opts.StormRate), b.opts.StormBurst),
		done:     make(chan struct{}),
		macs:     map[macAddr]*entry{},
	}
	p.deliveries.Init()
	p.source, _ = sink.(sourceSink)
	p.bounded, _ = sink.(frame.Bounded)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, network.ErrClosed
	}
	b.table.mu.Lock()
	for _, m := range o.StaticMACs {
		b.table.set(numberOf(m), p, never)
	}
	b.table.mu.Unlock()
	for _, m := range o.MACs {
		p.learn(numberOf(m[:]), seconds(b.opts.Now()))
	}
	b.setPorts(append(slices.Clone(*b.ports.Load()), p))
	return p, nil
}

// setPorts replaces all ports. The caller holds mu.
func (b *Bridge) setPorts(ports []*Port) { b.ports.Store(&ports) }

// remove takes p out of the bridge and forgets its addresses.
func (b *Bridge) remove(p *Port) {
	b.mu.Lock()
	b.setPorts(slices.DeleteFunc(slices.Clone(*b.ports.Load()), func(q *Port) bool { return q == p }))
	b.mu.Unlock()
	b.table.mu.Lock()
	defer b.table.mu.Unlock()
	for m := range p.macs {
		b.table.drop(m)
	}
}

// Close ends every port: their Done is closed and Err tells network.ErrClosed. Attach fails from then on.
func (b *Bridge) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	for _, p := range *b.ports.Load() {
		if !was {
			close(p.done)
			_ = p.Close()
		}
	}
	return nil
}
