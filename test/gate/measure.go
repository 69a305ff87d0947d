// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// A gate is one run.
type gate struct {
	p       params
	base    baseline
	rig     *rig.Rig
	tallies []*tally
}

// sides are what is measured of t, in the order of the first round.
func (t *tally) sides() []string {
	if t.row.proven {
		return []string{t.row.floor, slowDaemon, t.row.daemon}
	}
	return []string{t.row.floor, t.row.daemon}
}

// side is where the slots of a kind of relay go.
func (t *tally) side(kind string) *side {
	switch kind {
	case t.row.floor:
		return &t.floor
	case slowDaemon:
		return &t.slow
	default:
		return &t.daemon
	}
}

// prepare builds what the rows need.
func (g *gate) prepare(ctx context.Context) error {
	for _, t := range g.tallies {
		if err := g.rig.Prepare(ctx, t.sides()...); err != nil {
			return err
		}
	}
	return nil
}

// round measures some rows once, with new processes: A B, and in the next round B A.
func (g *gate) round(ctx context.Context, number int, some []*tally) (err error) {
	relays := map[string]*rig.Relay{}
	defer func() {
		for _, r := range relays {
			err = errors.Join(err, r.Stop())
		}
	}()
	for _, t := range some {
		sides := t.sides()
		if number%2 == 1 {
			slices.Reverse(sides)
		}
		for _, kind := range sides {
			if relays[kind] == nil {
				r, err := g.rig.Start(kind)
				if err != nil {
					return err
				}
				relays[kind] = r
			}
			if err := g.measure(ctx, relays[kind], t.row, t.side(kind)); err != nil {
				return fmt.Errorf("measure %q with %s: %w", t.row.text, kind, err)
			}
		}
	}
	return nil
}

// measure adds a measurement's slots to s.
func (g *gate) measure(ctx context.Context, r *rig.Relay, row row, s *side) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	res, err := g.rig.Drive(ctx, r, row.load())
	if err != nil {
		return err
	}
	for _, slot := range res.Slots {
		if slot.Received >= minFrames {
			*s = append(*s, float64(slot.RelayCPUNS)/float64(slot.Received))
		}
	}
	return nil
}
