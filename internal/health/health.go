// SPDX-License-Identifier: Apache-2.0

// Package health tells what goes wrong in a running daemon, in plain English and with what to do about it.
//
// A Monitor looks at the status document when somebody asks for it. By itself it only looks after something has happened that
// may be a problem: a guest began to wait for DHCP, an address was claimed. An idle daemon has no timer. For what is only told by
// counters (storms, drops) it remembers those of former looks: what grew since a look at least ten seconds ago is news, and on the
// first look, what happened at all is mentioned.
package health

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/watch"
)

const (
	// answerTime is how long a guest waits for DHCP before that is a problem. Clients repeat the question after four seconds
	// (RFC 2131 section 4.1), and a server that checks an address with an echo takes one.
	answerTime = 5 * time.Second

	// slack is what is added to a deadline: the status counts whole milliseconds.
	slack = 5 * time.Millisecond

	// lookPause is the least time between two looks that nobody asked for: a guest decides how often something happens.
	lookPause = time.Second

	// suspectTime is for how long after something suspicious has happened the Monitor goes on looking, at growing distances.
	suspectTime = 40 * time.Second

	// maxSeen bounds the clients that are remembered, far above --max-clients.
	maxSeen = 4096
)

// Options set up a Monitor.
type Options struct {
	Log *slog.Logger
	// Status describes the daemon. It is called on a goroutine of its own when something is to be looked at though nobody asked,
	// after the first Look, and calls Problems.
	Status func() status.Status
	// Addresses tells what uses addresses of this host; nil: that is not looked at.
	Addresses func() (*freenet.Table, error)
	// DHCPOff is the option that made a network without a DHCP server; empty: it has one, or never has.
	DHCPOff string
	// OneInterface: all clients share one vmnet interface because the daemon was told so.
	OneInterface bool
}

// A Monitor remembers what is needed to tell problems. It is a perclient.Observer. All methods may be called from several
// goroutines, and on nil.
type Monitor struct {
	opts  Options
	began time.Time

	mu         sync.Mutex // held for moments only: Seen is on the way of frames
	seen       map[uint64]sight
	timer      *time.Timer // nil: nothing is to be looked at
	due        time.Time   // when it fires
	looked     time.Time   // when it fired last
	deadline   time.Time   // of who began to wait last
	suspect    time.Time   // when two guests began to look as if they had one address
	suspicious bool        // they still do
	ready      bool        // Look was called
	closed     bool
	looking    sync.WaitGroup

	look   sync.Mutex // one at a time
	memory memory
}

// A sight is what a client's guest said last.
type sight struct {
	mac     [6]byte
	ip      netip.Addr
	waiting bool
	told    bool // that it waits for too long was logged
}

// New makes a Monitor that looks at nothing yet.
func New(o Options) *Monitor {
	return &Monitor{opts: o, began: time.Now(), seen: map[uint64]sight{}, memory: newMemory()}
}

// Seen implements perclient.Observer.
func (m *Monitor) Seen(id uint64, s watch.Snapshot) {
	if m == nil {
		return
	}
	now := sight{ip: s.IP, waiting: !s.Waiting.IsZero()}
	copy(now.mac[:], s.MAC)
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.seen[id]
	if !known && len(m.seen) >= maxSeen {
		return
	}
	now.told = before.told
	m.seen[id] = now
	switch {
	case now.waiting && !before.waiting:
		m.deadline = s.Waiting.Add(answerTime + slack)
		m.schedule(m.deadline)
	case before.told && !now.waiting:
		m.schedule(time.Now())
	case m.suspicious, now.mac != before.mac, now.ip != before.ip && now.ip.IsValid():
		m.schedule(time.Now().Add(lookPause))
	}
}

// Gone implements perclient.Observer.
func (m *Monitor) Gone(id uint64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, id)
}

// Look has everything looked at soon: the network has started. Before the first time nothing is looked at unless somebody asks.
func (m *Monitor) Look() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = true
	m.schedule(time.Now())
}

// Close ends the Monitor and waits for a look that is under way. Problems goes on to answer.
func (m *Monitor) Close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.closed = true
	if m.timer != nil && m.timer.Stop() {
		m.timer = nil
		m.looking.Done()
	}
	m.mu.Unlock()
	m.looking.Wait()
}

// schedule has the status looked at, at the time at or a little later. m.mu is held.
func (m *Monitor) schedule(at time.Time) {
	if m.closed || !m.ready || m.opts.Status == nil {
		return
	}
	if first := m.looked.Add(lookPause); at.Before(first) {
		at = first
	}
	if m.timer != nil {
		if !at.Before(m.due) || !m.timer.Stop() {
			return // it fires early enough, or has just done so
		}
		m.looking.Done()
	}
	m.looking.Add(1)
	m.due = at
	m.timer = time.AfterFunc(time.Until(at), m.fire)
}

// fire looks at the status, and again as long as there is reason to.
func (m *Monitor) fire() {
	defer m.looking.Done()
	m.mu.Lock()
	m.timer, m.looked = nil, time.Now()
	closed, began := m.closed, m.looked
	m.mu.Unlock()
	if closed {
		return
	}
	st := m.opts.Status()
	m.mu.Lock()
	defer m.mu.Unlock()
	if next, ok := nextAnswer(&st); ok {
		m.schedule(began.Add(next))
	}
	if m.deadline.After(began) { // of who began to wait just now, if st does not tell it yet
		m.schedule(m.deadline)
	}
	if since := began.Sub(m.suspect); m.suspicious && since < suspectTime { // after 1, 2, 4 … seconds
		m.schedule(began.Add(max(since, lookPause)))
	}
}

// nextAnswer is after what time the first of the guests that wait will have waited for too long.
func nextAnswer(st *status.Status) (next time.Duration, ok bool) {
	for i := range st.Clients {
		w := seconds(st.Clients[i].DHCP.Waiting)
		if w <= 0 || w >= answerTime {
			continue
		}
		if left := answerTime - w + slack; !ok || left < next {
			next, ok = left, true
		}
	}
	return next, ok
}

// note keeps for Seen what a look has found: which clients were told to wait for too long, and whether two guests look as if they
// had one address.
func (m *Monitor) note(now time.Time, told map[uint64]bool, suspicious bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if suspicious && !m.suspicious {
		m.suspect = now
	}
	m.suspicious = suspicious
	for id, s := range m.seen {
		if s.told != told[id] {
			s.told = told[id]
			m.seen[id] = s
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
