// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// maxOrphans is how many flows are kept, in all, of clients that have gone. A guest that comes back, as QEMU does when it
// reconnects, finds its connections alive; those that never do hold no more than this.
const maxOrphans = 512

// flowKey identifies a flow while it lives.
type flowKey struct {
	proto tcpip.TransportProtocolNumber
	// id is of a flow that a guest began, or by the outside's address and the number of the forward, of forwarded UDP. Forwarded TCP has
	// none: a connection that ends is still there when its ports are used again.
	id stack.TransportEndpointID
}

// A flow is one connection or UDP association of a guest, from its first packet, dialling included, to its last.
type flow struct {
	table *flowTable
	key   flowKey
	share share
	crowd bool // its guest had many of the same protocol when it began

	used atomic.Int64 // UDP: when it carried something last, ns on the table's clock

	guest atomic.Pointer[guestConn]           // nil before it is dialled and after the end
	at    atomic.Pointer[ipv4.ControlMessage] // of forwarded UDP: where on the host the last datagram was sent to

	ctx  context.Context
	stop context.CancelFunc // ends the flow from outside
}

// onEnd sets what makes the flow's goroutines return when it is ended from outside.
func (f *flow) onEnd(end func()) { context.AfterFunc(f.ctx, end) }

// release ends the flow's count; the flow's own goroutine calls it last.
func (f *flow) release() {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	f.table.remove(f)
	f.table.open--
	f.guest.Store(nil) // orphans are kept for longer
}

func (f *flow) touch() { f.used.Store(int64(f.table.now())) }

// A share is what one guest may have of one protocol.
type share struct {
	src   uint64
	proto tcpip.TransportProtocolNumber
}

// flowTable counts the flows of each guest. A guest is a port of the bridge, because a guest can forge its IP address:
// counting by address would let it have more than its share, or use up the share of another.
type flowTable struct {
	started time.Time
	most    int // flows, each of which has a file

	mu      sync.Mutex
	open    int               // flows, those included that are being ended
	flows   map[flowKey]*flow // that have an id
	shares  map[share]map[*flow]bool
	orphans []*flow // of guests that left, oldest first, some of which have ended
}

// newFlowTable makes one whose flows leave otherFiles of those that this process may open.
func newFlowTable() *flowTable {
	var files unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	return &flowTable{started: time.Now(), most: int(min(files.Cur, math.MaxInt32)) - otherFiles, flows: map[flowKey]*flow{}, shares: map[share]map[*flow]bool{}}
}

func (t *flowTable) now() time.Duration { return time.Since(t.started) }

// lookup returns the flow with that key, nil if there is none.
func (t *flowTable) lookup(k flowKey) *flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flows[k]
}

// add counts a new flow of the guest behind src. It returns nil if the guest has too many: maxFlows, or as many as there is still room
// for with all guests, so that however many one has, another one may have some. A UDP flow takes the place of the guest's longest idle
// one instead, since UDP never tells when it is done.
func (t *flowTable) add(src uint64, k flowKey) *flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := share{src, k.proto}
	full := len(t.shares[s]) >= min(maxFlows, t.most-t.open)
	if t.flows[k] != nil || full && (k.proto == header.TCPProtocolNumber || len(t.shares[s]) == 0 || t.open >= t.most) {
		return nil
	}
	if full {
		idle := slices.MinFunc(slices.Collect(maps.Keys(t.shares[s])), func(a, b *flow) int { return int(a.used.Load() - b.used.Load()) })
		t.remove(idle)
		idle.stop()
	}
	f := &flow{table: t, key: k, share: s, crowd: len(t.shares[s]) >= crowd}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.touch()
	if t.shares[s] == nil {
		t.shares[s] = map[*flow]bool{}
	}
	t.shares[s][f] = true
	t.open++
	if k.id != (stack.TransportEndpointID{}) {
		t.flows[k] = f
	}
	return f
}

// remove takes f out, if it is still there. The caller holds mu.
func (t *flowTable) remove(f *flow) {
	if t.flows[f.key] == f {
		delete(t.flows, f.key)
	}
	delete(t.shares[f.share], f)
	if len(t.shares[f.share]) == 0 {
		delete(t.shares, f.share)
	}
}

// guestGone tells that the port was closed. Its flows stay, within maxOrphans: those of the guest that left first end first. A TCP
// connection ends unless its guest is heard of within returns.
func (t *flowTable) guestGone(src uint64, returns time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orphans = slices.DeleteFunc(t.orphans, func(f *flow) bool { return !t.shares[f.share][f] })
	for _, p := range []tcpip.TransportProtocolNumber{header.TCPProtocolNumber, header.UDPProtocolNumber} {
		t.orphans = slices.AppendSeq(t.orphans, maps.Keys(t.shares[share{src, p}]))
	}
	heard := map[*flow]uint64{}
	for f := range t.shares[share{src, header.TCPProtocolNumber}] {
		if g := f.guest.Load(); g != nil {
			heard[f] = g.heard()
			g.keepAlive(returns/4, returns/4)
		}
	}
	time.AfterFunc(returns, func() {
		for f, before := range heard {
			switch g := f.guest.Load(); {
			case g == nil:
			case g.heard() == before:
				f.stop()
			default: // it is back
				g.keepAlive(keepAliveIdle, keepAliveInterval)
			}
		}
	})
	for len(t.orphans) > maxOrphans {
		t.orphans[0].stop()
		t.orphans = t.orphans[1:]
	}
}

// sweep ends the UDP flows that have carried nothing for so long.
func (t *flowTable) sweep(idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, f := range t.flows {
		if k.proto == header.UDPProtocolNumber && t.now()-time.Duration(f.used.Load()) > idle {
			f.stop()
		}
	}
}

// counts returns how many flows there are.
func (t *flowTable) counts() (tcp, udp int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, flows := range t.shares {
		if s.proto == header.TCPProtocolNumber {
			tcp += len(flows)
		} else {
			udp += len(flows)
		}
	}
	return tcp, udp
}
