// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Names of the two daemons of a comparison, and of the series and the directory of its results.
const (
	sideOld, sideNew = "old", "new"

	seriesCompare = "old-new"
	compareDir    = "old-new"
)

// compare is the verbs of one direction: an old and a new daemon in turn under the same machines, which are restarted in
// between, as a machine of Lima has its socket for as long as it runs. The order A B B A lets both have the same share of a
// machine that gets warmer or busier.
func (p *perf) compare(ctx context.Context) (err error) {
	sources := map[string]source{}
	for side, text := range map[string]string{sideOld: p.old, sideNew: p.new} {
		if sources[side], err = p.findSource(text); err != nil {
			return err
		}
	}
	if p.old == p.new {
		p.say("The old and the new daemon are the same: what differs is noise")
	}
	defer func() { err = errors.Join(err, p.machines.close()) }()
	if err := p.prepare(ctx); err != nil {
		return err
	}
	results, err := begin(filepath.Join(p.out, compareDir), p.config()+"."+p.verb)
	if err != nil {
		return err
	}
	var all []result
	for i, side := range order(p.rounds) {
		p.say("Measurement %d of %d: the %s daemon, %s", i+1, 2*p.rounds, side, sources[side].name)
		r, err := p.once(ctx, sources[side])
		if err != nil {
			return err
		}
		r.side = side
		if err := r.write(results, compareName(i/2, side)); err != nil {
			return err
		}
		all = append(all, r)
	}
	if err := errors.Join(results.finish(), p.keep(ctx, seriesCompare, all)); err != nil {
		return err
	}
	p.say("Results are in %s", results.final)
	c := comparison{name: p.config() + " " + p.verb}
	for _, r := range all {
		c.add(r.side, r.use)
	}
	fmt.Fprintf(p.stdout, "\n%s", compareTable([]comparison{c}))
	return nil
}

// compareName is the name of a result, without its suffix.
func compareName(round int, side string) string { return fmt.Sprintf("%03d.%s", round, side) }

// order is who is measured when, each of them so many times.
func order(rounds int) []string {
	var sides []string
	for i := range rounds {
		if i%2 == 0 {
			sides = append(sides, sideOld, sideNew)
		} else {
			sides = append(sides, sideNew, sideOld)
		}
	}
	return sides
}

// once starts everything, measures the verb's direction and stops everything.
func (p *perf) once(ctx context.Context, src source) (result, error) {
	var r result
	d, err := p.with(ctx, src, func(d *daemon) (err error) {
		r, err = p.measure(ctx, d, p.verb)
		return err
	})
	if err == nil {
		r.use.Drops = d.drops() // of these machines' connections, which had one transfer
	}
	return r, err
}
