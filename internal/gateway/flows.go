// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// maxOrphans is how many flows are kept, in all, of clients that have gone. A guest that comes back, as QEMU does when it
// reconnects, finds its connections alive; one that never does holds no more than this.
const maxOrphans = 512

// proto tells TCP and UDP flows apart.
type proto uint8

const (
	protoTCP proto = iota
	protoUDP
)

// flowKey identifies a flow while it lives.
type flowKey struct {
	proto   proto
	id      stack.TransportEndpointID // of a flow that a guest began
	forward uint64                    // number of a flow through a forward, else 0
}

// A flow is one connection or UDP association of a guest, from its first packet, dialling included, to its last.
type flow struct {
	table *flowTable
	key   flowKey
	src   uint64
	crowd bool // its guest had many of the same protocol when it began

	used atomic.Int64 // UDP: when it carried something last, ns on the table's clock

	mu  sync.Mutex
	cut bool   // ended from outside
	end func() // makes the flow's goroutines return, set once there is something to end
}

// onEnd sets what ends the flow from outside; it is called at once if that has happened already, and at most once.
func (f *flow) onEnd(end func()) {
	f.mu.Lock()
	if f.cut {
		f.mu.Unlock()
		end()
		return
	}
	f.end = end
	f.mu.Unlock()
}

// stop ends the flow from outside.
func (f *flow) stop() {
	f.mu.Lock()
	end := f.end
	f.cut, f.end = true, nil
	f.mu.Unlock()
	if end != nil {
		end()
	}
}

// release ends the flow's count; the flow's own goroutine calls it last.
func (f *flow) release() { f.table.remove(f) }

func (f *flow) touch() { f.used.Store(int64(f.table.now())) }

// flowTable counts the flows of each guest. A guest is a port of the bridge, because a guest can forge its IP address:
// counting by address would let it have more than its share, or use up the share of another.
type flowTable struct {
	started time.Time

	mu      sync.Mutex
	closed  bool
	flows   map[flowKey]*flow
	guests  map[uint64]*guestFlows
	orphans []uint64 // guests that left with flows open, oldest first
}

type guestFlows struct {
	flows [2]map[*flow]bool // by proto
}

func newFlowTable() *flowTable {
	return &flowTable{started: time.Now(), flows: map[flowKey]*flow{}, guests: map[uint64]*guestFlows{}}
}

func (t *flowTable) now() time.Duration { return time.Since(t.started) }

// lookup returns the flow with that key, nil if there is none.
func (t *flowTable) lookup(k flowKey) *flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flows[k]
}

// add counts a new flow of the guest behind src. It returns nil if the guest has too many, or the table is closed. A UDP
// flow takes the place of the guest's longest idle one instead, since UDP never tells when it is done.
func (t *flowTable) add(src uint64, k flowKey) *flow {
	t.mu.Lock()
	if t.closed || t.flows[k] != nil {
		t.mu.Unlock()
		return nil
	}
	g := t.guests[src]
	if g == nil {
		g = &guestFlows{flows: [2]map[*flow]bool{{}, {}}}
		t.guests[src] = g
	}
	var evicted *flow
	if own := g.flows[k.proto]; len(own) >= maxFlows {
		if k.proto == protoTCP {
			t.mu.Unlock()
			return nil
		}
		evicted = longestIdle(own)
		t.removeLocked(evicted)
		t.guests[src] = g
	}
	f := &flow{table: t, key: k, src: src, crowd: len(g.flows[k.proto]) >= crowd}
	f.touch()
	t.flows[k] = f
	g.flows[k.proto][f] = true
	t.mu.Unlock()
	if evicted != nil {
		evicted.stop()
	}
	return f
}

func longestIdle(flows map[*flow]bool) *flow {
	var old *flow
	for f := range flows {
		if old == nil || f.used.Load() < old.used.Load() {
			old = f
		}
	}
	return old
}

func (t *flowTable) remove(f *flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removeLocked(f)
}

func (t *flowTable) removeLocked(f *flow) {
	if t.flows[f.key] == f {
		delete(t.flows, f.key)
	}
	g := t.guests[f.src]
	if g == nil {
		return
	}
	delete(g.flows[f.key.proto], f)
	if g.len() == 0 {
		delete(t.guests, f.src)
	}
}

func (g *guestFlows) len() int { return len(g.flows[protoTCP]) + len(g.flows[protoUDP]) }

// guestGone tells that the port was closed. Its flows stay, within maxOrphans.
func (t *flowTable) guestGone(src uint64) {
	var ended []*flow
	t.mu.Lock()
	t.orphans = append(t.orphans, src)
	t.orphans = slices.DeleteFunc(t.orphans, func(id uint64) bool { return t.guests[id] == nil })
	total := 0
	for _, id := range t.orphans {
		total += t.guests[id].len()
	}
	for total > maxOrphans {
		g := t.guests[t.orphans[0]]
		total -= g.len()
		ended = g.appendAll(ended)
		t.orphans = t.orphans[1:]
	}
	t.mu.Unlock()
	for _, f := range ended {
		f.stop()
	}
}

func (g *guestFlows) appendAll(to []*flow) []*flow {
	for _, flows := range g.flows {
		for f := range flows {
			to = append(to, f)
		}
	}
	return to
}

// counts returns how many flows there are.
func (t *flowTable) counts() (tcp, udp int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.guests {
		tcp += len(g.flows[protoTCP])
		udp += len(g.flows[protoUDP])
	}
	return tcp, udp
}

// close ends every flow; no new one is counted from then on.
func (t *flowTable) close() {
	t.mu.Lock()
	t.closed = true
	var all []*flow
	for _, g := range t.guests {
		all = g.appendAll(all)
	}
	t.mu.Unlock()
	for _, f := range all {
		f.stop()
	}
}
