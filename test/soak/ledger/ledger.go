// SPDX-License-Identifier: Apache-2.0

// Package ledger judges a network by the content of the frames that it carries: each frame names the connection that sent
// it, the guest it is for, its place in the order and its length, and ends with a checksum. A Ledger knows which address
// belongs to which connection and since when the network must know that too, so it can tell for each frame that arrives
// whether it may be there, is whole, and comes once and in order; and at the end, whether what is missing was counted by the
// network as dropped.
//
// Nothing is assumed of the network but what it promises: an address is its owner's from the first frame on that a station
// received from there, until the connection ends or the network starts again.
package ledger

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Kind is what a violation is about.
type Kind string

// The kinds of violations.
const (
	Misdelivered Kind = "misdelivered" // unicast at a station that does not own the address
	Returned     Kind = "returned"     // a frame at the connection that it came from
	Corrupted    Kind = "corrupted"    // a frame that was not sent like this
	Cut          Kind = "cut"          // a frame that is shorter or longer than it was sent
	Duplicated   Kind = "duplicated"
	Reordered    Kind = "reordered"
	Lost         Kind = "lost"    // frames missing between others that came, and not counted as dropped
	Miscounted   Kind = "counter" // a counter that is not what the client saw
)

// A Violation is a broken promise.
type Violation struct {
	Kind Kind
	At   time.Duration // since the beginning of the run
	Text string
}

// Options set up a Ledger.
type Options struct {
	Run uint32 // a number that all frames carry, so that those of another run are not taken for ours
	// Now is the time since the beginning of the run.
	Now func() time.Duration
	// Alien says of a frame that is not the ledger's whether it may be there: it came from another station on the network, and
	// not of a frame of ours that was changed. nil = there is no other.
	Alien func(f []byte) bool
	// Report is told of each violation, from any goroutine; nil = Violations has them.
	Report func(Violation)
}

// maxKept bounds the violations that are kept, of each kind. All are counted.
const maxKept = 20

// An era is a time in which the network forgets no address by itself: from a start or an upgrade to the next.
type era struct {
	number int
	began  time.Duration
	active bool // false while the network is stopped, or stopping, or starting
}

// A Ledger holds what is known of a run. Its methods may be called from several goroutines.
type Ledger struct {
	opts Options
	era  atomic.Pointer[era]

	mu         sync.RWMutex
	lastID     uint32
	conns      map[uint32]*Conn    // by number: those of this life and of the one before
	owners     map[[6]byte]*Conn   // the last one with the address
	ended      map[uint32]*Summary // what the network said of those that have ended in this life
	violations map[Kind][]Violation
	counts     map[Kind]int

	Stats Stats
}

// Stats tell how much was checked. They may be read at any time.
type Stats struct {
	Frames   atomic.Uint64 // with all there is to check by content
	Owned    atomic.Uint64 // unicast to an address that the network had to know at that time
	Flooded  atomic.Uint64 // unicast at others, rightly: the address was not known
	Missing  atomic.Uint64 // missing between others
	Excused  atomic.Uint64 // missing while the network was restarted or upgraded
	Settled  atomic.Uint64 // connections whose counters were compared
	GapConns atomic.Uint64 // connections for which what is missing was compared with what was dropped
}

// New makes an empty ledger. No address is safe before Begin.
func New(o Options) *Ledger {
	l := &Ledger{
		opts: o, conns: map[uint32]*Conn{}, owners: map[[6]byte]*Conn{}, ended: map[uint32]*Summary{},
		violations: map[Kind][]Violation{}, counts: map[Kind]int{},
	}
	l.era.Store(&era{})
	return l
}

// Begin tells that the network has started, or has been upgraded: from now on what guests send is known to it.
func (l *Ledger) Begin() {
	l.era.Store(&era{number: l.era.Load().number + 1, began: l.opts.Now(), active: true})
}

// End tells that the network is about to be stopped or upgraded. Callers call it before they do so.
func (l *Ledger) End() {
	l.era.Store(&era{number: l.era.Load().number + 1, began: l.opts.Now()})
}

// Active reports that the network is there, as far as Begin and End say.
func (l *Ledger) Active() bool { return l.era.Load().active }

// Open adds a connection of a guest with an address, which no other one has now: the network has ended the last one with it.
func (l *Ledger) Open(guest uint32, mac net.HardwareAddr, transport string) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastID++
	c := &Conn{
		l: l, ID: l.lastID, Guest: guest, MAC: slices.Clone(mac), Transport: transport,
		next: map[uint32]uint64{}, flows: map[uint32]*flow{}, Opened: l.opts.Now(),
	}
	l.conns[c.ID] = c
	l.owners[[6]byte(mac)] = c
	return c
}

// Gone tells that the network has ended c and will not act on anything from it any more.
func (l *Ledger) Gone(c *Conn) {
	c.closing.Store(true)
	c.gone.Store(true)
}

// Fail records a violation.
func (l *Ledger) Fail(k Kind, format string, args ...any) {
	v := Violation{Kind: k, At: l.opts.Now(), Text: fmt.Sprintf(format, args...)}
	l.mu.Lock()
	l.counts[k]++
	if len(l.violations[k]) < maxKept {
		l.violations[k] = append(l.violations[k], v)
	}
	l.mu.Unlock()
	if l.opts.Report != nil {
		l.opts.Report(v)
	}
}

// Violations are those so far, in the order of time, at most maxKept of each kind.
func (l *Ledger) Violations() (all []Violation) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, v := range l.violations {
		all = append(all, v...)
	}
	slices.SortStableFunc(all, func(a, b Violation) int { return int(a.At - b.At) })
	return all
}

// Counts are how many violations there were of each kind.
func (l *Ledger) Counts() map[Kind]int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.counts)
}
