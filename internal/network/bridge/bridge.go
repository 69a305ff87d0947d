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
	"errors"
	"log/slog"
	"math/bits"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// Defaults and limits.
const (
	// defaultMaxClients is how many ports the MAC table is sized for.
	defaultMaxClients = 256
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
)

// errTooManyPorts is returned by Attach when every port number is taken.
var errTooManyPorts = errors.New("attach port: all port numbers are in use")

// Options set up a Bridge. The zero value is usable.
type Options struct {
	MaxClients int // ports to size the tables for; 0 = defaultMaxClients
	StormRate  int // frames a second; 0 = defaultStormRate
	StormBurst int // frames; 0 = defaultStormBurst
	Log        *slog.Logger
	// Find is asked where an address is that no port has sent from, as 48 bits. nil, or the result nil: it is not known, and the
	// frame is flooded. It is called by Send and must not wait.
	Find func(mac uint64) *Port
	// Now is a monotonic clock, time since an arbitrary start; nil = the system's.
	Now func() time.Duration
}

// PortID numbers a port. A number is not used again for a long time after its port has gone.
type PortID uint16

// PortOptions describe a port.
type PortOptions struct {
	Name string // for logs
	// MACs are learned from the start, as if a frame had come from each.
	MACs []network.MAC
	// StaticMACs belong to the port from the start, do not age and are never learned elsewhere.
	StaticMACs []net.HardwareAddr
	// KnownOnly keeps unknown unicast from being flooded to the port: it gets frames for its own addresses, broadcast and
	// multicast.
	KnownOnly bool
	// Trusted frees what the port sends from the flood budget, and has more addresses learned behind it.
	Trusted bool
	// Isolated keeps frames from going to other isolated ports, floods included.
	Isolated bool
}

// A sourceSink is a sink that wants to know where frames come from. The bridge calls DeliverFrom in place of Deliver, by
// the same rules.
type sourceSink interface {
	frame.Sink
	DeliverFrom(src PortID, b frame.Batch)
}

// A Bridge joins ports.
type Bridge struct {
	opts  Options
	table *macTable

	// byID holds the port of each number in use; its length is a power of two well above the number of clients, so that
	// a number comes round again only after many others.
	byID []atomic.Pointer[Port]
	all  atomic.Pointer[[]*Port] // snapshot for floods

	mu     sync.Mutex // guards what follows, and changes of byID and all
	lastID int
	closed bool
}

// New makes a bridge without ports.
func New(o Options) *Bridge {
	if o.MaxClients <= 0 {
		o.MaxClients = defaultMaxClients
	}
	if o.StormRate <= 0 {
		o.StormRate = defaultStormRate
	}
	if o.StormBurst <= 0 {
		o.StormBurst = defaultStormBurst
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Duration { return time.Since(start) }
	}
	b := &Bridge{
		opts:  o,
		table: newMACTable(2 * maxMACs * o.MaxClients),
		byID:  make([]atomic.Pointer[Port], min(1<<bits.Len(uint(4*o.MaxClients)), 1<<15)),
	}
	b.all.Store(new([]*Port))
	return b
}

// Attach adds a port whose frames go to sink. It returns network.ErrClosed after Close.
func (b *Bridge) Attach(o PortOptions, sink frame.Sink) (*Port, error) {
	p := &Port{
		br:       b,
		opts:     o,
		sink:     sink,
		maxFrame: sink.MaxFrame(),
		storm:    newBudget(b.opts.StormRate, b.opts.StormBurst),
		done:     make(chan struct{}),
	}
	p.deliveries.Init()
	p.source, _ = sink.(sourceSink)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, network.ErrClosed
	}
	id, ok := b.nextID()
	if !ok {
		return nil, errTooManyPorts
	}
	p.id = id
	for _, m := range o.StaticMACs {
		p.addStatic(m)
	}
	b.byID[id].Store(p)
	for _, m := range o.MACs {
		p.learn(numberOf(m[:]), seconds(b.opts.Now()))
	}
	ports := append(slices.Clone(*b.all.Load()), p)
	b.all.Store(&ports)
	return p, nil
}

// nextID picks the free number that was used longest ago. The caller holds mu.
func (b *Bridge) nextID() (PortID, bool) {
	for range b.byID {
		b.lastID = (b.lastID + 1) % len(b.byID)
		if b.byID[b.lastID].Load() == nil {
			return PortID(b.lastID), true
		}
	}
	return 0, false
}

// remove takes p out of the bridge and forgets its addresses.
func (b *Bridge) remove(p *Port) {
	b.mu.Lock()
	ports := slices.DeleteFunc(slices.Clone(*b.all.Load()), func(q *Port) bool { return q == p })
	b.all.Store(&ports)
	b.mu.Unlock()
	p.forgetAll()
	// The number is free again only when no entry of the table carries it any more.
	b.byID[p.id].CompareAndSwap(p, nil)
}

// Close ends every port: their Done is closed and Err tells network.ErrClosed. Attach fails from then on.
func (b *Bridge) Close() error {
	b.mu.Lock()
	b.closed = true
	ports := *b.all.Load()
	b.mu.Unlock()
	for _, p := range ports {
		p.fail(network.ErrClosed)
		_ = p.Close()
	}
	return nil
}
