// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// A measurement is one set-up in one round.
type measurement struct {
	Round      int     `json:"round"`
	Setup      string  `json:"setup"`
	rig.Result         // its fields are those of the JSON object
	CPU        float64 `json:"cpu_ns_per_frame"` // of the relay, per frame or round trip
}

const (
	fewTrips    = 100 // round trips of a measurement
	echoRetries = 5
)

// extraRounds is how often the floor is measured again before it is believed to be too slow.
const extraRounds = 7

// rounds measures all set-ups interleaved, A B C and then C B A, so that a busy moment of the machine does not hit the same
// one each time.
func (b *bench) rounds(ctx context.Context) ([]measurement, error) {
	rows, all := b.p.rows(), b.p.setups()
	used := usedBy(b.p.decided(rows))
	var done []measurement
	for round := range b.p.Rounds {
		chosen := all
		if !withCurves(round) {
			chosen = slices.DeleteFunc(slices.Clone(all), func(s setup) bool { return !used[s.name] })
		}
		if len(chosen) == 0 {
			continue
		}
		progress("round %d of %d, %d set-ups", round+1, b.p.Rounds, len(chosen))
		more, err := b.round(ctx, round, chosen, used)
		if err != nil {
			return nil, err
		}
		done = append(done, more...)
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return !r.mustHold })
	used = usedBy(rows)
	floor := slices.DeleteFunc(all, func(s setup) bool { return !used[s.name] })
	for round := range extraRounds {
		if !slices.ContainsFunc(judge(done, rows), verdict.invalidates) {
			break
		}
		progress("the floor is below its target: another round of it")
		more, err := b.round(ctx, b.p.Rounds+round, floor, used)
		if err != nil {
			return nil, err
		}
		done = append(done, more...)
	}
	return done, nil
}

// withCurves tells whether in a round the set-ups are measured that decide nothing: points of curves, which need less than what
// has a target. It is so in every second round, and by turns in one that goes forward and one that goes back.
func withCurves(round int) bool { return round%4 == 0 || round%4 == 3 }

// round measures set-ups once; those that are not used by what is decided are measured for a shorter time.
func (b *bench) round(ctx context.Context, round int, all []setup, used map[string]bool) ([]measurement, error) {
	order := slices.Clone(all)
	if round%2 == 1 {
		slices.Reverse(order)
	}
	var done []measurement
	for _, s := range order {
		parts := max(s.parts, 1)
		s.load.Time = b.p.Time / time.Duration(parts)
		if s.short || !used[s.name] && parts == 1 {
			s.load.Time = b.p.Time / 2
		}
		if s.load.Time < b.p.Time {
			s.load.Warm = b.p.Warm / 2
		}
		for part := range parts {
			res, err := b.measureWell(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("measure %q: %w", s.name, err)
			}
			done = append(done, measurement{Round: round*parts + part, Setup: s.name, Result: res, CPU: res.CPU()})
		}
	}
	return done, nil
}

// measureWell measures a set-up again where the machine stood still for so long that there are too few round trips for a
// median to mean anything.
func (b *bench) measureWell(ctx context.Context, s setup) (rig.Result, error) {
	for attempt := 0; ; attempt++ {
		res, err := b.Measure(ctx, s.relay, s.load)
		if err != nil || !s.load.Echo || res.RoundTrips >= fewTrips {
			return res, err
		}
		if attempt == echoRetries {
			return res, fmt.Errorf("only %d round trips in %v", res.RoundTrips, time.Duration(res.WallNS))
		}
	}
}
