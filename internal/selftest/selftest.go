// SPDX-License-Identifier: Apache-2.0

// Package selftest tries a network with fake guests instead of virtual machines, on the machine it runs on: does it start,
// does a guest get an address, do frames go where they should and nowhere else, how fast, how many guests fit, and is the
// network the same one after it was closed. The outcome is a Report.
package selftest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// Defaults of Options, and limits.
const (
	DefaultAnswer     = 2 * time.Second
	DefaultBurst      = 2 * time.Second
	DefaultInterfaces = 40

	// hangs is how long a step may take beyond its limit before it is left alone.
	hangs = 3 * time.Second
	// atEnd is how long closing what is still open may take after the last step.
	atEnd = 3 * time.Second
)

// Options describe a run. Only Open is required.
type Options struct {
	// Open starts the network under test. It is called once more after the first one was closed.
	Open func(ctx context.Context) (vnet.Network, error)
	// Describe tells more about a network than its Info does, such as the API it was made with and why; nil = nothing.
	Describe func(n vnet.Network) Facts
	// Sharing tells how many ports have no interface of their own now, and what the last failure to start one was, nil if
	// that is not known; nil = every port has its own.
	Sharing func(n vnet.Network) (ports int, why error)
	// SharingAsked is set when ports need not have interfaces of their own.
	SharingAsked bool
	// Isolated is set when guests must not reach each other.
	Isolated bool
	// NoRouter is set when leases need not name the gateway.
	NoRouter bool
	// LeasesFile is where the system records the leases of this network; empty = it does not.
	LeasesFile string

	Environment Facts // about the machine and the program, for the report

	Answer     time.Duration // how long an answer may take; default DefaultAnswer
	Burst      time.Duration // how long each of two bursts lasts; default DefaultBurst
	Interfaces int           // how many are started at most; default DefaultInterfaces

	OnStep func(Step) // called after each step; nil = nothing

	limit time.Duration // of every step, in tests; 0 = its own
}

// A step is one thing that is tried.
type step struct {
	name  string
	limit time.Duration
	needs func(r *run) (missing string) // why it cannot be tried, empty if it can; nil = it always can
	run   func(r *run, ctx context.Context) result
}

// steps are tried in this order. docs/selftest.md tells of each.
var steps = []step{
	{"open", 20 * time.Second, nil, (*run).open},
	{"info", time.Second, (*run).needNetwork, (*run).tell},
	{"attach", 15 * time.Second, (*run).needNetwork, (*run).attach},
	{"lease", 15 * time.Second, (*run).needGuests, (*run).lease},
	{"arp", 5 * time.Second, (*run).needGateway, (*run).arp},
	{"ping", 8 * time.Second, (*run).needGateway, (*run).ping},
	{"unicast", 8 * time.Second, (*run).needAddresses, (*run).unicast},
	{"broadcast", 5 * time.Second, (*run).needAddresses, (*run).broadcast},
	{"full-frame", 8 * time.Second, (*run).needAddresses, (*run).fullFrame},
	{"throughput", 10 * time.Second, (*run).needTraffic, (*run).throughput},
	{"ping-load", 10 * time.Second, (*run).needTrafficAndGateway, (*run).pingUnderLoad},
	{"recorded", 5 * time.Second, (*run).needRecord, (*run).recorded},
	{"interfaces", 25 * time.Second, (*run).needGuests, (*run).interfaces},
	{"close", 8 * time.Second, (*run).needNetwork, (*run).close},
	{"reopen", 15 * time.Second, (*run).needClosed, (*run).reopen},
	{"same-lease", 12 * time.Second, (*run).needLease, (*run).sameLease},
	{"stop", 8 * time.Second, (*run).needNetwork, (*run).close},
}

// StepNames are the names of all steps in the order of a Report.
func StepNames() []string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return names
}

// Run tries the network until it is through or ctx is done; what was not tried is skipped then, and the Report is
// incomplete. It leaves nothing running, unless a call into the network does not return.
func Run(ctx context.Context, o Options) Report {
	if o.Answer <= 0 {
		o.Answer = DefaultAnswer
	}
	if o.Burst <= 0 {
		o.Burst = DefaultBurst
	}
	if o.Interfaces <= 0 {
		o.Interfaces = DefaultInterfaces
	}
	r := newRun(ctx, o)
	rep := Report{Schema: Schema, Started: time.Now().UTC().Truncate(time.Second), Environment: o.Environment}
	cut := "" // why the run was ended early
	for _, s := range steps {
		done := r.try(ctx, s)
		rep.Steps = append(rep.Steps, done)
		if why := stopped(ctx); done.Outcome == Skip && done.Text == why {
			cut = why
		}
		if o.OnStep != nil {
			o.OnStep(done)
		}
	}
	r.end()
	rep.finish(cut)
	rep.Seconds = seconds(time.Since(r.began))
	return rep
}

// stopped tells why ctx ended, empty while it has not.
func stopped(ctx context.Context) string {
	switch {
	case ctx.Err() == nil:
		return ""
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return "out of time"
	case errors.Is(context.Cause(ctx), context.Canceled):
		return "interrupted"
	}
	return "interrupted: " + context.Cause(ctx).Error()
}

// try does one step, if it can be done.
func (r *run) try(ctx context.Context, s step) Step {
	start := time.Now()
	res := r.attempt(ctx, s)
	return Step{Name: s.name, Outcome: res.outcome, Text: res.text, Seconds: seconds(time.Since(start)), Values: res.values}
}

func (r *run) attempt(ctx context.Context, s step) result {
	if why := stopped(ctx); why != "" {
		return skip("%s", why)
	}
	if r.hung != "" {
		return skip("%s did not come back", r.hung)
	}
	if s.needs != nil {
		if missing := s.needs(r); missing != "" {
			return skip("%s", missing)
		}
	}
	if r.opts.limit > 0 {
		s.limit = r.opts.limit
	}
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	done := make(chan result, 1)
	go func() { done <- s.run(r, limited) }()
	res, ok := await(limited, done)
	if !ok {
		// The step may still use what belongs to the run, so nothing else does from here on.
		r.hung = s.name
		res = fail("did not come back within %s", short(time.Since(start)))
	}
	if why := stopped(ctx); why != "" && ok && res.outcome == Fail {
		return skip("%s", why)
	}
	return res
}

// await waits for a step's result until hangs after its time is over.
func await(limited context.Context, done <-chan result) (result, bool) {
	select {
	case res := <-done:
		return res, true
	case <-limited.Done():
	}
	select {
	case res := <-done:
		return res, true
	case <-time.After(hangs):
		return result{}, false
	}
}

// result is what a step found.
type result struct {
	outcome Outcome
	text    string
	values  Facts
}

func pass(values Facts, format string, args ...any) result {
	return result{Pass, fmt.Sprintf(format, args...), values}
}

func skip(format string, args ...any) result { return result{Skip, fmt.Sprintf(format, args...), nil} }

func fail(format string, args ...any) result { return result{Fail, fmt.Sprintf(format, args...), nil} }

// with adds measured values to a result.
func (res result) with(values Facts) result {
	res.values = append(res.values, values...)
	return res
}
