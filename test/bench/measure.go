// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

const (
	warmTime = 150 * time.Millisecond // of a flow before the measurement begins
	restWarm = 6                      // times the time of a measurement, until what was needed for the start has ended
	restTime = 20                     // times that for a set-up at rest, which is measured once: neighbours change nothing about it
	fewTrips = 100                    // of a measurement of round trips
	retries  = 5
)

// A setup is one combination of relay and traffic. Each round measures it once.
type setup struct {
	name  string // two of the same name are the same
	relay string // a kind of package rig
	load  rig.Load
	parts int  // shorter measurements in place of one, each with a new relay; 0: one
	rest  bool // the clients are silent, and what is measured is whether the relay is, too

	run func(*bench, context.Context) (rig.Result, error) // measures something else, if not nil
}

// A bench is one run.
type bench struct {
	*rig.Rig
	time   time.Duration // of a measurement
	rounds int
	rows   []row
}

// measure measures what the rows need, interleaved: A B C and then C B A, so that a busy moment of the machine does not hit the same
// set-up each time.
func (b *bench) measure(ctx context.Context) ([]figure, error) {
	all := needed(b.rows)
	for _, s := range all {
		if s.relay == "" {
			continue
		}
		if err := b.Prepare(ctx, s.relay); err != nil {
			return nil, err
		}
	}
	results := map[string][]rig.Result{}
	for round := range b.rounds {
		progress("round %d of %d, %d set-ups", round+1, b.rounds, len(all))
		for _, s := range all {
			if s.rest && round > 0 {
				continue
			}
			if err := b.setup(ctx, s, results); err != nil {
				return nil, fmt.Errorf("measure %q: %w", s.name, err)
			}
		}
		slices.Reverse(all)
	}
	var figures []figure
	for _, r := range b.rows {
		figures = append(figures, r.figure(results))
	}
	return figures, nil
}

// needed are the set-ups of rows.
func needed(rows []row) (all []setup) {
	for _, r := range rows {
		for _, s := range []setup{r.subject, r.base} {
			same := func(other setup) bool { return other.name == s.name }
			if s.name != "" && !slices.ContainsFunc(all, same) {
				all = append(all, s)
			}
		}
	}
	return all
}

// setup measures s once.
func (b *bench) setup(ctx context.Context, s setup, results map[string][]rig.Result) error {
	if s.run != nil {
		res, err := s.run(b, ctx)
		results[s.name] = append(results[s.name], res)
		return err
	}
	parts := max(s.parts, 1)
	s.load.Time = b.time / time.Duration(parts)
	if s.rest {
		s.load.Time, s.load.Warm = restTime*b.time, restWarm*b.time
	}
	for range parts {
		res, err := b.measureWell(ctx, s)
		if err != nil {
			return err
		}
		results[s.name] = append(results[s.name], res)
	}
	return nil
}

// measureWell measures a set-up again where the machine stood still for so long that there are too few round trips for a
// median to mean anything.
func (b *bench) measureWell(ctx context.Context, s setup) (rig.Result, error) {
	for attempt := 0; ; attempt++ {
		res, err := b.Measure(ctx, s.relay, s.load)
		if err != nil || !s.load.Echo || res.RoundTrips >= fewTrips || attempt == retries {
			return res, err
		}
	}
}

// start measures how long the daemon takes from being executed until it has served a client.
func (b *bench) start(ctx context.Context) (rig.Result, error) {
	took, err := b.Ready(ctx, rig.Daemon)
	return rig.Result{WallNS: int64(took)}, err
}
