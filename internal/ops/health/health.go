// SPDX-License-Identifier: Apache-2.0

// Package health tells how a running daemon fares: what goes wrong, in plain English and with what to do about it, and to Prometheus what
// it counts, from the same description that GET /v1/status answers with.
//
// A Monitor looks at the status document when it is asked for. By itself it only looks after something has happened that
// may be a problem: a guest began to wait for DHCP, an address was claimed. An idle daemon has no timer. For what is only told by
// counters (storms, drops) it remembers those of former looks: what grew since a look at least ten seconds ago is news, and on the
// first look, what happened at all is mentioned.
package health

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// answerTime is how long a guest waits for DHCP before that is a problem. Clients repeat the question after four seconds
	// (RFC 2131 section 4.1), and a server that checks an address with an echo takes one.
	answerTime = 5 * time.Second

	// lookPause is the time between two looks that were not asked for: a guest decides how often something happens.
	lookPause = time.Second

	// suspectTime bounds the pauses between the looks after something has happened, which double: it may become a problem.
	suspectTime = 40 * time.Second
)

// Options set up a Monitor.
type Options struct {
	Log *slog.Logger
	// Status describes the daemon. It is called on a goroutine of its own for looks that were not asked for, never before the first
	// Look, and calls Problems.
	Status func() status.Status
	// Addresses tells what uses addresses of this host; nil: that is not looked at.
	Addresses func() (*freenet.Table, error)
	// DHCPOff is the option that made a network without a DHCP server; empty: it has one, or never has.
	DHCPOff string
	// OneInterface: all clients share one vmnet interface because the daemon was told so.
	OneInterface bool
}

// A Monitor remembers what is needed to tell problems. It is a perclient.observer. All methods may be called from several
// goroutines, Close and Problems also on nil.
type Monitor struct {
	opts    Options
	began   time.Time
	news    chan struct{} // of one: something has happened
	done    context.Context
	end     context.CancelFunc
	start   sync.Once
	looking sync.WaitGroup

	mu         sync.Mutex // held for moments only: Seen is on the way of frames
	seen       map[uint64]sight
	suspicious bool // a rule may know more on the next look

	look   sync.Mutex // one at a time
	memory memory
}

// A sight is what a client's guest said last.
type sight struct {
	mac     [6]byte
	ip      netip.Addr
	waiting bool
}

// New makes a Monitor that looks at nothing yet.
func New(o Options) *Monitor {
	m := &Monitor{opts: o, began: time.Now(), seen: map[uint64]sight{}, news: make(chan struct{}, 1)}
	m.done, m.end = context.WithCancel(context.Background())
	return m
}

// Seen implements perclient.observer.
func (m *Monitor) Seen(id uint64, s watch.Snapshot) {
	now := sight{ip: s.IP, waiting: !s.Waiting.IsZero()}
	copy(now.mac[:], s.MAC)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.suspicious || now != m.seen[id] {
		m.wake()
	}
	m.seen[id] = now
}

// Gone implements perclient.observer.
func (m *Monitor) Gone(id uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, id)
}

// wake has everything looked at, once that may be.
func (m *Monitor) wake() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// Look has everything looked at: the network has started. Before the first time nothing is looked at unless it is asked for.
func (m *Monitor) Look() {
	m.wake()
	m.start.Do(func() { m.looking.Go(m.run) })
}

// Close ends the Monitor and waits for a look that is under way. Problems goes on to answer.
func (m *Monitor) Close() {
	if m != nil {
		m.end()
		m.looking.Wait()
	}
}

// run looks at the status when something has happened, and again after pauses that double, until suspectTime.
func (m *Monitor) run() {
	for {
		select {
		case <-m.news:
		case <-m.done.Done():
			return
		}
		for pause := lookPause; pause < suspectTime; {
			_ = m.opts.Status()
			select {
			case <-time.After(lookPause):
			case <-m.done.Done():
				return
			}
			select {
			case <-m.news:
				pause = lookPause
			case <-time.After(pause - lookPause):
				pause *= 2
			case <-m.done.Done():
				return
			}
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// A finding is a problem that a rule has found.
type finding struct {
	status.Problem
	of    string // tells it from others with its code, such as the address; empty if there is only one
	waits bool   // its clients wait for DHCP
}

// found notes a problem of clients, in a sentence.
func (v *view) found(code, severity string, list []*status.Client, fix []string, format string, args ...any) *finding {
	ids := make([]uint64, len(list))
	for i, c := range list {
		ids[i] = c.ID
	}
	text := fmt.Sprintf(format, args...)
	if rest, ok := strings.CutPrefix(text, "client "); ok {
		text = "Client " + rest
	}
	f := &finding{Problem: status.Problem{Code: code, Severity: severity, Clients: ids, Text: text, Fix: fix}}
	v.all = append(v.all, f)
	return f
}

// A view is what the rules see.
type view struct {
	*status.Status
	*memory
	opts       *Options
	base       *sample // nil on the first look
	all        []*finding
	suspicious bool // set by rules that may know more on the next look
}

// rules are all there are, in the order in which problems of equal weight are told.
var rules = []func(*view){
	networkNotRunning, sharingBusy, subnetOverlap, noDHCP, poolFilling, duplicateIP, duplicateMAC, noInterface, diedAsleep, stalled, grown,
	sharedInterface, refused, unserved, gatewayDown, forwards, notKept, replaced,
}

// maxOfOne bounds the problems with one code: guests decide how many addresses they quarrel about.
const maxOfOne = 8

// Problems tells what is wrong with the daemon that st describes, the worst first; Health in st is not looked at. What is new and
// bad is also logged, once.
func (m *Monitor) Problems(st status.Status) []status.Problem {
	problems := []status.Problem{}
	if m == nil {
		return problems
	}
	m.look.Lock()
	defer m.look.Unlock()
	v := &view{Status: &st, memory: &m.memory, opts: &m.opts, base: m.memory.compare(&st)}
	for _, rule := range rules {
		most := len(v.all) + maxOfOne
		rule(v)
		if more := len(v.all) - most; more > 0 {
			v.all = v.all[:most]
			v.all[most-1].Text += fmt.Sprintf(" (and %d more like this)", more)
		}
	}
	weight := func(f *finding) int {
		return slices.Index([]string{status.Error, status.Warning, status.Notice}, f.Severity)
	}
	slices.SortStableFunc(v.all, func(a, b *finding) int { return cmp.Compare(weight(a), weight(b)) })
	m.remember(v)
	m.mu.Lock()
	m.suspicious = v.suspicious
	m.mu.Unlock()
	for _, f := range v.all {
		problems = append(problems, f.Problem)
	}
	return problems
}
