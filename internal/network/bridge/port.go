// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// A Port is one attachment to a Bridge. It has the methods of network.Port but Info, which the network adds.
//
//	attached --Close--> closing: no new delivery starts, those in flight end --> closed
type Port struct {
	br       *Bridge
	id       PortID
	opts     PortOptions
	sink     frame.Sink
	source   sourceSink // sink, if it asks for the source
	maxFrame int        // of sink, bytes

	storm budget // used by Send only

	deliveries network.Gate // to the sink
	removal    sync.Once

	done     chan struct{} // closed when the port died by itself
	failOnce sync.Once
	err      error // set before done is closed

	// macs are the table slots of the addresses behind the port, guarded by the table's lock.
	macs []uint32
	gone bool // no address is added any more; guarded by the table's lock
	// swept is when, in seconds, macs was last searched for expired addresses; guarded by the table's lock.
	swept uint32

	drops    counters
	learning learnCounters
	flapped  bool // a moved address was logged; guarded by the table's lock
}

// counters are drops of frames from the port, by reason.
type counters struct{ storm, oversize, hairpin, isolated, closed atomic.Uint64 }

// learnCounters count frames whose source address was not learned or was taken from another port.
type learnCounters struct{ full, static, moved atomic.Uint64 }

// ID is the port's number.
func (p *Port) ID() PortID { return p.id }

// Done implements network.Port: it is closed when the bridge was closed under the port.
func (p *Port) Done() <-chan struct{} { return p.done }

// Err tells why Done was closed, nil before.
func (p *Port) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

func (p *Port) fail(err error) {
	p.failOnce.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Close detaches the port: its addresses are forgotten and, once it returns, its sink is not called again.
func (p *Port) Close() error {
	idle := p.deliveries.Shut()
	p.removal.Do(func() { p.br.remove(p) })
	<-idle
	return nil
}

// Stats are the port's counters.
func (p *Port) Stats() network.PortStats {
	s := network.PortStats{Drops: map[network.DropReason]uint64{}}
	for reason, c := range map[network.DropReason]*atomic.Uint64{
		network.DropStorm:    &p.drops.storm,
		network.DropOversize: &p.drops.oversize,
		network.DropHairpin:  &p.drops.hairpin,
		network.DropIsolated: &p.drops.isolated,
		network.DropClosed:   &p.drops.closed,
	} {
		if n := c.Load(); n != 0 {
			s.Drops[reason] = n
		}
	}
	p.br.table.mu.Lock()
	s.MACs = len(p.macs)
	p.br.table.mu.Unlock()
	full, static := p.unlearned()
	s.Moved, s.Unlearned = p.moves(), full+static
	return s
}

// unlearned is how many source addresses were not learned because the port already has as many as it may, or the table is full, and
// how many because they are static addresses of another port. Both count sightings, not addresses.
func (p *Port) unlearned() (full, static uint64) {
	return p.learning.full.Load(), p.learning.static.Load()
}

// MACs are the addresses known behind the port now.
func (p *Port) MACs() []network.MAC {
	t := p.br.table
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]network.MAC, 0, len(p.macs))
	for _, slot := range p.macs {
		m := t.words[slot].Load() >> 16
		list = append(list, network.MAC{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)})
	}
	return list
}

func (p *Port) maxMACs() int {
	if p.opts.Trusted {
		return maxTrustedMACs
	}
	return maxMACs
}

// moves is how many times an address moved to this port from another one.
func (p *Port) moves() uint64 { return p.learning.moved.Load() }

// addStatic enters an address that never ages or moves.
func (p *Port) addStatic(m net.HardwareAddr) {
	t, a := p.br.table, numberOf(m)
	t.mu.Lock()
	defer t.mu.Unlock()
	slot, _, ok := t.find(a)
	if ok {
		p.br.drop(slot)
	} else if slot, ok = t.freeSlot(a, 0, maxAge); !ok {
		return
	}
	t.set(slot, a, p.id, never)
	p.macs = append(p.macs, slot)
}

// learn notes that m was seen on p at time now, in seconds. The common case, a known address in its place, takes no lock.
func (p *Port) learn(m macAddr, now uint32) {
	if m.isGroup() || m == 0 || p.br.table.refresh(m, p.id, now) {
		return
	}
	if from, first := p.enterMAC(m, now); first {
		hw := net.HardwareAddr{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
		p.br.opts.Log.Warn("MAC address moved between clients; give every NIC an address of its own",
			"mac", hw.String(), "from", from, "to", p.opts.Name)
	}
}

// enterMAC is learn with the table's lock. first reports that for the first time an address moved to p, and from which port:
// the caller logs it, without the lock.
func (p *Port) enterMAC(m macAddr, now uint32) (from string, first bool) {
	t := p.br.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.gone {
		return from, first
	}
	slot, _, known := t.find(m)
	if known && t.seen[slot].Load() == never {
		p.learning.static.Add(1)
		return from, first
	}
	if len(p.macs) >= p.maxMACs() {
		p.forgetExpired(now)
	}
	if len(p.macs) >= p.maxMACs() {
		p.learning.full.Add(1)
		return from, first
	}
	if known {
		from, first = p.tookFrom(t.owner(slot))
	} else if slot, known = t.freeSlot(m, now, maxAge); !known {
		p.learning.full.Add(1)
		return from, first
	}
	p.br.drop(slot)
	t.set(slot, m, p.id, now)
	p.macs = append(p.macs, slot)
	return from, first
}

// tookFrom counts that an address moved here from another port, and names that one the first time. The caller holds the
// table's lock.
func (p *Port) tookFrom(old PortID) (from string, first bool) {
	p.learning.moved.Add(1)
	first, p.flapped = !p.flapped, true
	if q := p.br.byID[old].Load(); q != nil {
		from = q.opts.Name
	}
	return from, first
}

// drop empties a slot and takes it off its owner's list. The caller holds the table's lock.
func (b *Bridge) drop(slot uint32) {
	w := b.table.words[slot].Load()
	if w == 0 {
		return
	}
	b.table.words[slot].Store(0)
	if q := b.byID[w&0xffff-1].Load(); q != nil {
		if i := slices.Index(q.macs, slot); i >= 0 {
			q.macs = slices.Delete(q.macs, i, i+1)
		}
	}
}

// forgetExpired drops the port's addresses that have not been seen for maxAge. The caller holds the table's lock.
func (p *Port) forgetExpired(now uint32) {
	if now == p.swept { // frames from more addresses than are learned must not cost a walk each
		return
	}
	p.swept = now
	t := p.br.table
	p.macs = slices.DeleteFunc(p.macs, func(slot uint32) bool {
		if !expired(t.seen[slot].Load(), now, maxAge) {
			return false
		}
		t.words[slot].Store(0)
		return true
	})
}

func (p *Port) forgetAll() {
	t := p.br.table
	t.mu.Lock()
	defer t.mu.Unlock()
	p.gone = true
	for _, slot := range p.macs {
		t.words[slot].Store(0)
	}
	p.macs = nil
}

// seconds converts the bridge's clock to the time stamps of the table. Time 0 is left to entries that were never seen.
func seconds(now time.Duration) uint32 { return uint32(now/time.Second) + 1 }
