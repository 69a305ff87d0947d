// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/soak/ledger"
)

// The kinds of violations that are not the ledger's.
const (
	disconnected ledger.Kind = "disconnected" // a client that did nothing wrong
	refused      ledger.Kind = "refused"      // a client, while the daemon served
	exited       ledger.Kind = "exited"       // the daemon, by itself
	slowStop     ledger.Kind = "slow stop"
	logged       ledger.Kind = "logged" // what must not be in a log
	growth       ledger.Kind = "growth" // of what the daemon uses
	silent       ledger.Kind = "silent" // nothing is delivered any more
	upgraded     ledger.Kind = "upgrade"
	tolerated    ledger.Kind = "tolerated" // a client that must be closed was not
)

// A run is one soak.
type run struct {
	o       options
	ctx     context.Context // of those who come and go
	abort   context.CancelCauseFunc
	began   time.Time
	place   place
	ledger  *ledger.Ledger
	book    *book
	daemon  *daemon
	actions *actions
	gate    *gate
	guests  []*guest
	forgers []*forger
	watch   *witnesses
	totals  totals
	strain  strain
	// tamper, if not nil, gets the frames in place of the ledger: tests show by it that faults are found.
	tamper func(s *station, f []byte)
	// enough, if not nil, tells whether there was enough for the run to end in time: tests want something to have happened, however
	// busy the machine is.
	enough func() bool

	wg sync.WaitGroup
}

// now is the time since the beginning of the run.
func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) fail(k ledger.Kind, format string, args ...any) { r.ledger.Fail(k, format, args...) }

// maxFrame is the longest frame on the network, in bytes.
func (r *run) maxFrame() int {
	if r.o.Backend == backendSimulator {
		return 1514
	}
	return maxDatagram
}

func (r *run) bounds() bounds {
	return bounds{guests: len(r.guests), maxFrame: r.maxFrame(), pause: r.o.Pause}
}

// target is where frames from somebody to guest n go, and how long they may be for its present transport. When it is not there
// they go to the next one who is: what goes to nobody is flooded.
func (r *run) target(from *station, n int) (ledger.Target, int) {
	for i := range r.guests {
		s := r.guests[(n+i)%len(r.guests)].owner.Load()
		if s != nil && s != from && !s.leaving.Load() && !s.over.Load() {
			return s.conn.Target(), s.line.via.maxFrame()
		}
	}
	return ledger.Broadcast, ledger.MinLen
}

// vary has the frames of a burst differ in length.
func (r *run) vary(size, n int) int {
	if n%3 == 0 {
		return size
	}
	return ledger.MinLen + (size*(n*7%13))/13
}

// A gate keeps actors from beginning, and knows how many are at work.
type gate struct {
	mu      sync.Mutex
	shut    atomic.Bool
	busy    int
	changed chan struct{}
}

func newGate() *gate {
	g := &gate{changed: make(chan struct{})}
	g.shut.Store(true)
	return g
}

func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// enter waits until the gate is open. It returns false when ctx is done.
func (g *gate) enter(ctx context.Context) bool {
	for {
		g.mu.Lock()
		if ctx.Err() != nil {
			g.mu.Unlock()
			return false
		}
		if !g.shut.Load() {
			g.busy++
			g.mu.Unlock()
			return true
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	g.wake()
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut.Store(false)
	g.wake()
}

// close has everybody leave and waits for that.
func (g *gate) close(ctx context.Context) bool {
	g.shut.Store(true)
	for {
		g.mu.Lock()
		busy, changed := g.busy, g.changed
		g.mu.Unlock()
		if busy == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// totals are what was done.
type totals struct {
	connections, retries, sent atomic.Uint64
	ways                       [16]atomic.Uint64 // by transport
	starts, terms, kills       atomic.Int64
	upgrades, refusals         atomic.Int64
	tooSlow                    atomic.Int64 // upgrades given up because the machine was too busy
	freezes, calms             atomic.Int64

	mu           sync.Mutex
	slowestStop  time.Duration
	slowestStart time.Duration
	slowestGap   time.Duration // of a witness
	upgradeTimes []time.Duration
	hostile      map[string]int
	uses         []usage // at calms
}

func (t *totals) by(via transport) *atomic.Uint64 {
	for i, v := range transports {
		if v == via {
			return &t.ways[i]
		}
	}
	return &t.ways[len(t.ways)-1]
}

func (t *totals) slowest(d *time.Duration, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*d = max(*d, took)
}

func (t *totals) tried(kind string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hostile == nil {
		t.hostile = map[string]int{}
	}
	t.hostile[kind] += n
}

// actions are written down, so that a run can be understood and repeated.
type actions struct {
	mu sync.Mutex
	f  *os.File
	r  *run
}

func (a *actions) add(actor string, n int, what string, details any) {
	b, err := json.Marshal(struct {
		At      float64 `json:"at"` // seconds
		Actor   string  `json:"actor"`
		N       int     `json:"n"`
		Action  string  `json:"action"`
		Details any     `json:"details,omitempty"`
	}{a.r.now().Seconds(), actor, n, what, details})
	if err != nil {
		b = fmt.Appendf(nil, "%q", err.Error())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _ = a.f.Write(append(b, '\n'))
}

// create makes a file in the run's directory.
func (r *run) create(name string) (*os.File, error) { return os.Create(filepath.Join(r.o.Dir, name)) }
