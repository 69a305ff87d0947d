// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// run is the verb run: every direction with one daemon. Results are written when all of them are there, so that a directory
// never has half of a run.
func (p *perf) run(ctx context.Context) error {
	src, err := p.runSource()
	if err != nil {
		return err
	}
	if err := p.machines.check(ctx, p.count); err != nil {
		return err
	}
	tests := []string{hostToVM, vmToHost, vmToVM}
	if p.count < 2 {
		tests = tests[:2]
	}
	results, err := p.with(ctx, src, tests...)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.out, p.config())
	for _, r := range results {
		if err := r.write(filepath.Join(dir, r.direction+".json")); err != nil {
			return err
		}
	}
	p.say("Results are in %s", dir)
	printTable(p.stdout, results, nil)
	return nil
}

// runSource is the daemon of run: on macOS the one that is running, as with socket_vmnet's test.
func (p *perf) runSource() (source, error) {
	switch {
	case p.daemon != "":
		return findSource(p.daemon)
	case p.goos == "linux":
		return findSource(wordTree)
	}
	socket := filepath.Join(p.runDir, "socket_vmnet")
	if p.iface != "" {
		socket += ".bridged." + p.iface
	}
	src, err := findSource(socket)
	if err != nil {
		err = fmt.Errorf("%w. Start the daemon, or name one with -s", err)
	}
	return src, err
}

// goesOn tells that something goes on, until the function that it returns is called.
func (p *perf) goesOn(what string) (stop func()) {
	return lab.Every(lab.TellEvery, func(passed time.Duration) { p.say("... %s for %v", what, passed) })
}

// with starts a daemon and the machines on it, measures the directions and stops everything again.
func (p *perf) with(ctx context.Context, src source, directions ...string) (results []result, err error) {
	var d *daemon
	defer func() {
		p.say("Stopping the machines")
		err = errors.Join(err, p.machines.stop(ctx))
		if d != nil && d.stop != nil {
			err = errors.Join(err, d.stop())
		}
	}()
	if d, err = p.machines.attach(ctx, src); err != nil {
		return nil, err
	}
	p.say("Starting %d machines on %s", p.count, d.socket)
	stop := p.goesOn("starting")
	err = p.machines.start(ctx, p.count, d)
	stop()
	if err != nil {
		return nil, err
	}
	for _, direction := range directions {
		stop := p.goesOn(direction)
		r, err := p.measure(ctx, d, direction)
		stop()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", direction, err)
		}
		results = append(results, r)
		note := ""
		if r.use.note != "" {
			note = "; " + r.use.note
		}
		p.say("%s %.3f Gbit/s, daemon %s s of CPU per GB%s", direction, r.use.bitsPerSecond/1e9, decimal(r.use.cpuPerGB), note)
	}
	return results, nil
}

// measure sends in one direction.
func (p *perf) measure(ctx context.Context, d *daemon, direction string) (result, error) {
	r := result{direction: direction}
	before, beforeErr := p.consumed(ctx, d.pid)
	var err error
	if r.iperf, err = p.machines.transfer(ctx, direction, p.seconds); err != nil {
		return r, err
	}
	t, err := lab.ParseIPerf(r.iperf)
	if err != nil {
		return r, err
	}
	after, afterErr := p.consumed(ctx, d.pid)
	r.use = difference(t, before, after, errors.Join(beforeErr, afterErr))
	r.use.daemon = d.name
	return r, nil
}

// compare is the verbs of one direction: an old and a new daemon in turn under the same machines, which are restarted in
// between, as a machine of Lima has its socket for as long as it runs. The order A B B A lets both have the same share of a
// machine that gets warmer or busier.
func (p *perf) compare(ctx context.Context) (err error) {
	const sideOld, sideNew = "old", "new"
	sources := map[string]source{}
	for side, text := range map[string]string{sideOld: p.old, sideNew: p.new} {
		if sources[side], err = findSource(text); err != nil {
			return err
		}
	}
	if err := p.machines.check(ctx, p.count); err != nil {
		return err
	}
	dir := filepath.Join(p.out, "old-new", p.config()+"."+p.verb)
	if err := os.RemoveAll(dir); err != nil { // of an earlier comparison, with more rounds perhaps
		return err
	}
	measured := map[string][]result{}
	for round := range p.rounds {
		sides := []string{sideOld, sideNew}
		if round%2 == 1 {
			sides = []string{sideNew, sideOld}
		}
		for _, side := range sides {
			p.say("Round %d of %d: the %s daemon, %s", round+1, p.rounds, side, sources[side].name)
			r, err := p.with(ctx, sources[side], p.verb)
			if err != nil {
				return err
			}
			if err := r[0].write(filepath.Join(dir, fmt.Sprintf("%03d.%s.json", round, side))); err != nil {
				return err
			}
			measured[side] = append(measured[side], r[0])
		}
	}
	p.say("Results are in %s", dir)
	printTable(p.stdout, measured[sideOld], measured[sideNew])
	return nil
}
