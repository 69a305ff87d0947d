// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// A Port is one attachment to a Bridge. It has the methods of network.Port but Info, which the network adds.
//
//	attached --Close--> closing: no new delivery starts, those in flight end --> closed
type Port struct {
	br       *Bridge
	opts     PortOptions
	sink     frame.Sink
	source   sourceSink    // sink, if it asks for the source
	bounded  frame.Bounded // sink, if it is
	maxFrame int           // of sink, bytes

	storm *rate.Limiter // of frames

	// What Send uses.
	slow   *Port         // the last receiver that was behind
	others time.Duration // when something was sent to any other that was not

	deliveries network.Gate // to the sink
	removal    sync.Once
	done       chan struct{} // closed when the bridge was closed under the port

	macs    map[macAddr]*entry // behind the port, guarded by the table's lock
	swept   uint32             // when macs was last searched for expired ones, in seconds; guarded by the table's lock
	flapped bool               // a moved address was logged; guarded by the table's lock

	drops            counters
	moved, unlearned atomic.Uint64 // as in network.PortStats
}

// counters are drops of frames from the port, by reason.
type counters struct{ storm, oversize, hairpin, isolated, closed atomic.Uint64 }

// Done implements network.Port: it is closed when the bridge was closed under the port.
func (p *Port) Done() <-chan struct{} { return p.done }

// Err tells why Done was closed, nil before.
func (p *Port) Err() error {
	select {
	case <-p.done:
		return network.ErrClosed
	default:
		return nil
	}
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
	p.br.table.mu.RLock()
	s.MACs = len(p.macs)
	p.br.table.mu.RUnlock()
	s.Moved, s.Unlearned = p.moved.Load(), p.unlearned.Load()
	return s
}

// MACs are the addresses known behind the port now.
func (p *Port) MACs() []network.MAC {
	p.br.table.mu.RLock()
	defer p.br.table.mu.RUnlock()
	list := make([]network.MAC, 0, len(p.macs))
	for m := range p.macs {
		list = append(list, m.bytes())
	}
	return list
}

func (p *Port) maxMACs() int {
	if p.opts.Trusted {
		return maxTrustedMACs
	}
	return maxMACs
}

// learn notes that m was seen on p at time now, in seconds.
func (p *Port) learn(m macAddr, now uint32) {
	if m.isGroup() || m == 0 {
		return
	}
	if e := p.br.table.find(m); e != nil && e.port == p {
		if s := e.seen.Load(); s != now && s != never { // nothing is written more than once a second
			e.seen.Store(now)
		}
		return
	}
	if from := p.enterMAC(m, now); from != nil {
		hw := m.bytes()
		p.br.opts.Log.Warn("MAC address moved between clients; give every NIC an address of its own",
			"mac", net.HardwareAddr(hw[:]).String(), "from", from.opts.Name, "to", p.opts.Name)
	}
}

// enterMAC enters an address that is new to p. For the first time that one moved here from another port the result is that port: the
// caller logs it, without the lock.
func (p *Port) enterMAC(m macAddr, now uint32) (from *Port) {
	t := &p.br.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.deliveries.IsShut() { // it may have forgotten its addresses already
		return nil
	}
	known := t.entries[m]
	if known != nil && known.seen.Load() == never {
		p.unlearned.Add(1)
		return nil
	}
	// Frames from more addresses than are learned must not cost a walk each.
	if len(p.macs) >= p.maxMACs() && now != p.swept {
		p.swept = now
		for old, e := range p.macs {
			if e.expired(now) {
				t.drop(old)
			}
		}
	}
	if len(p.macs) >= p.maxMACs() {
		p.unlearned.Add(1)
		return nil
	}
	if known != nil {
		p.moved.Add(1)
		if !p.flapped && !p.opts.Trusted && !known.port.opts.Trusted {
			p.flapped, from = true, known.port
		}
	}
	t.set(m, p, now)
	return from
}

// seconds converts the bridge's clock to the time stamps of the table.
func seconds(now time.Duration) uint32 { return uint32(now/time.Second) + 1 }

// A macAddr is a 48-bit Ethernet address in the low bits.
type macAddr uint64

func numberOf(b []byte) (m macAddr) {
	for _, x := range b {
		m = m<<8 | macAddr(x)
	}
	return m
}

// bytes is the address as it is in a frame.
func (m macAddr) bytes() network.MAC {
	return network.MAC{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}
}

// isGroup reports a broadcast or multicast address.
func (m macAddr) isGroup() bool { return m>>40&1 != 0 }

// never is the time stamp of an entry that does not age.
const never = ^uint32(0)

// An entry tells behind which port an address is. A new port means a new entry.
type entry struct {
	port *Port
	seen atomic.Uint32 // when last, in seconds since the bridge began, or never
}

// A macTable is what is known of addresses: as many as all ports together may have. A look-up holds the lock for a moment, shared
// with others; it is held alone only when an address is new or has moved, and when a port goes.
type macTable struct {
	mu      sync.RWMutex
	entries map[macAddr]*entry
}

// find returns what is known of m, nil for nothing.
func (t *macTable) find(m macAddr) *entry {
	t.mu.RLock()
	e := t.entries[m]
	t.mu.RUnlock()
	return e
}

// expired tells whether the address was not seen for so long that it is as good as unknown.
func (e *entry) expired(now uint32) bool {
	seen := e.seen.Load()
	return seen != never && now > seen && now-seen > maxAge
}

// drop forgets m. The caller holds mu.
func (t *macTable) drop(m macAddr) {
	if e := t.entries[m]; e != nil {
		delete(e.port.macs, m)
		delete(t.entries, m)
	}
}

// set has m be behind p. The caller holds mu.
func (t *macTable) set(m macAddr, p *Port, seen uint32) {
	t.drop(m)
	e := &entry{port: p}
	e.seen.Store(seen)
	t.entries[m], p.macs[m] = e, e
}
