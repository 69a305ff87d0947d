// SPDX-License-Identifier: Apache-2.0

// Package selftest tries a network with fake guests instead of virtual machines, on the machine it runs on: does it start,
// does a guest get an address, do frames go where they should and nowhere else, how many guests fit, and is the
// network the same one after it was closed. The outcome is a report.
package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// hangs is how long a step may take beyond its limit before it is left alone, and closing what is still open after the last step.
const hangs = 3 * time.Second

// Options describe a run. Only Open is required.
type Options struct {
	// Open starts the network under test. It is called once more after the first one was closed.
	Open func(ctx context.Context) (network.Network, error)
	// Describe tells more about a network than its Info does, such as the API it was made with and why; nil = nothing.
	Describe func(n network.Network) Facts
	// Sharing tells how many ports have no interface of their own now, and what the last failure to start one was, nil if
	// that is not known; nil = every port has its own.
	Sharing func(n network.Network) (ports int, why error)
	// SharingAsked is set when ports need not have interfaces of their own.
	SharingAsked bool
	// Isolated is set when guests must not reach each other.
	Isolated bool
	// NoRouter is set when leases need not name the gateway.
	NoRouter bool
	// LeasesFile is where the system records the leases of this network; empty = it does not.
	LeasesFile string

	Environment Facts // about the machine and the program, for the report

	Answer     time.Duration // how long an answer may take; default 2 s
	Interfaces int           // how many are started at most; default 40

	OnStep func(Step) // called after each step; nil = nothing

	limit time.Duration // of every step, in tests; 0 = its own
}

// need is what there must be for a step to be tried. Each includes those in front of it, down to network.
type need int

const (
	needNothing need = iota
	needClosed       // the network was open and is closed
	needNetwork
	needLease  // guest a has, or had, one
	needRecord // and the system records leases
	needGuests
	needAddresses
	needGateway
)

// A step is one thing that is tried.
type step struct {
	name  string
	limit time.Duration
	needs need
	run   func(r *run, ctx context.Context) Step
}

// steps are tried in this order. docs/try.md tells of each.
var steps = []step{
	{"open", 20 * time.Second, needNothing, (*run).open},
	{"info", time.Second, needNetwork, (*run).tell},
	{"attach", 15 * time.Second, needNetwork, (*run).attach},
	{"lease", 15 * time.Second, needGuests, (*run).lease},
	{"arp", 5 * time.Second, needGateway, (*run).arp},
	{"ping", 8 * time.Second, needGateway, (*run).ping},
	{"unicast", 8 * time.Second, needAddresses, (*run).unicast},
	{"broadcast", 5 * time.Second, needAddresses, (*run).broadcast},
	{"full-frame", 8 * time.Second, needAddresses, (*run).fullFrame},
	{"recorded", 5 * time.Second, needRecord, (*run).recorded},
	{"interfaces", 25 * time.Second, needGuests, (*run).interfaces},
	{"close", 8 * time.Second, needNetwork, (*run).close},
	{"reopen", 15 * time.Second, needClosed, (*run).reopen},
	{"same-lease", 12 * time.Second, needLease, (*run).sameLease},
	{"stop", 8 * time.Second, needNetwork, (*run).close},
}

// Run tries the network until it is through or ctx is done; what was not tried is skipped then, and the report is
// incomplete. It leaves nothing running, unless a call into the network does not return.
func Run(ctx context.Context, o Options) report {
	o.Answer, o.Interfaces = cmp.Or(o.Answer, 2*time.Second), cmp.Or(o.Interfaces, 40)
	r := &run{ctx: ctx, opts: o}
	start := time.Now()
	rep := report{Schema: Schema, Started: start.UTC().Truncate(time.Second), Environment: o.Environment}
	cut := "" // why the run was ended early
	for _, s := range steps {
		begun := time.Now()
		done := r.attempt(ctx, s)
		done.Name, done.Seconds = s.name, seconds(time.Since(begun))
		rep.Steps = append(rep.Steps, done)
		if why := stopped(ctx); done.Outcome == stepSkipped && done.Text == why {
			cut = why
		}
		if o.OnStep != nil {
			o.OnStep(done)
		}
	}
	if r.hung == "" {
		at, cancel := context.WithCancel(ctx)
		cancel()
		within(at, r.end)
	}
	rep.finish(cut)
	rep.Seconds = seconds(time.Since(start))
	return rep
}

// stopped tells why ctx ended, empty while it has not.
func stopped(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return ""
	case errors.Is(cause, context.DeadlineExceeded):
		return "out of time"
	case errors.Is(cause, context.Canceled):
		return "interrupted"
	default:
		return "interrupted: " + cause.Error()
	}
}

// attempt does one step, if it can be done.
func (r *run) attempt(ctx context.Context, s step) Step {
	if why := stopped(ctx); why != "" {
		return skip("%s", why)
	}
	if r.hung != "" {
		return skip("%s did not come back", r.hung)
	}
	if missing := r.missing(s); missing != "" {
		return skip("%s", missing)
	}
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, cmp.Or(r.opts.limit, s.limit))
	defer cancel()
	done := make(chan Step, 1)
	if !within(limited, func() { done <- s.run(r, limited) }) {
		// The step may still use what belongs to the run, so nothing else does from here on.
		r.hung = s.name
		return fail("did not come back within %s", time.Since(start).Round(time.Second))
	}
	res := <-done
	if why := stopped(ctx); why != "" && res.Outcome == stepFailed {
		return skip("%s", why)
	}
	return res
}

// within runs do, and tells whether it came back until hangs after the end of ctx.
func within(ctx context.Context, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-done:
		return true
	case <-time.After(hangs):
		return false
	}
}

// pass is a step whose values tell all there is to tell, but for notes.
func pass(values Facts, notes ...string) Step {
	for _, f := range values {
		if text := fmt.Sprint(f.Value); text != "" && text != "map[]" {
			notes = append(notes, f.Name+" "+text)
		}
	}
	return Step{Outcome: stepPassed, Text: strings.Join(notes, ", "), Values: values}
}

func skip(format string, args ...any) Step {
	return Step{Outcome: stepSkipped, Text: fmt.Sprintf(format, args...)}
}

func fail(format string, args ...any) Step {
	return Step{Outcome: stepFailed, Text: fmt.Sprintf(format, args...)}
}

// with adds measured values.
func (s Step) with(values Facts) Step {
	s.Values = append(s.Values, values...)
	return s
}
