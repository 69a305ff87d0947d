// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A perf is one call of the program that measures.
type perf struct {
	*setting
	options
	machines machines
	begun    rounds.Machine // as it was at the start
}

// roundsFile is the file with all rounds in a directory of results.
const roundsFile = "rounds.json"

// run is the verb run: every direction with one daemon.
func (p *perf) run(ctx context.Context) (err error) {
	src, err := p.runSource()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.machines.close()) }()
	if err := p.prepare(ctx); err != nil {
		return err
	}
	results, err := begin(p.out, p.config())
	if err != nil {
		return err
	}
	tests := directions
	if p.count < 2 {
		tests = directions[:2]
	}
	var all []result
	_, err = p.with(ctx, src, func(d *daemon) error {
		for _, direction := range tests {
			r, err := p.measure(ctx, d, direction)
			if err != nil {
				return err
			}
			if err := r.write(results, direction); err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(results.finish(), p.keep(ctx, "machines", all)); err != nil {
		return err
	}
	p.say("Results are in %s", filepath.Join(p.out, p.config()))
	fmt.Fprintf(p.stdout, "\n%s", table([]row{p.row(all)}))
	return nil
}

// runSource is the daemon of run: on macOS the one that is running, as with socket_vmnet's test.
func (p *perf) runSource() (source, error) {
	switch {
	case p.daemon != "":
		return p.findSource(p.daemon)
	case p.goos == "linux":
		return p.findSource(wordTree)
	}
	socket := filepath.Join(p.runDir, "socket_vmnet")
	if p.iface != "" {
		socket += ".bridged." + p.iface
	}
	src, err := p.findSource(socket)
	if err != nil {
		err = fmt.Errorf("%w. Start the daemon, or name one with -s", err)
	}
	return src, err
}

// prepare does what can fail before anything runs.
func (p *perf) prepare(ctx context.Context) error {
	if err := p.machines.check(ctx, p.count); err != nil {
		return err
	}
	p.begun = p.thisMachine(ctx)
	return claim(p.out)
}

// with starts a daemon and the machines on it, calls f and stops them again. The daemon it returns has ended, unless it is
// the user's, and its log is whole.
func (p *perf) with(ctx context.Context, src source, f func(*daemon) error) (d *daemon, err error) {
	d, err = p.machines.attach(ctx, src)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	defer func() {
		p.say("Stopping the machines")
		err = errors.Join(err, p.machines.stop(ctx))
	}()
	p.say("Starting %d machines on %s", p.count, d.socket)
	if err := p.machines.start(ctx, p.count, d); err != nil {
		return d, err
	}
	return d, f(d)
}

// measure sends in one direction and says what came of it.
func (p *perf) measure(ctx context.Context, d *daemon, direction string) (result, error) {
	r := result{direction: direction, daemon: d}
	before, beforeErr := p.consumedBy(ctx, d)
	var err error
	if r.iperf, err = p.machines.transfer(ctx, direction, p.seconds); err == nil {
		r.transfer, err = parseTransfer(r.iperf)
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", direction, err)
	}
	after, afterErr := p.consumedBy(ctx, d)
	r.use = r.difference(before, after, errors.Join(beforeErr, afterErr))
	r.use.Machines, r.use.System = p.vm, p.goos
	p.say("%s %s", direction, r.summary())
	return r, nil
}

// consumedBy asks what a daemon has needed so far.
func (p *perf) consumedBy(ctx context.Context, d *daemon) (consumption, error) {
	if d.pid == 0 {
		return consumption{}, errors.New("its process is not known")
	}
	return p.consumed(ctx, d.pid)
}

// keep adds results to the rounds of all runs in the directory, in the place of earlier ones with the same set-up.
func (p *perf) keep(ctx context.Context, series string, results []result) error {
	path := filepath.Join(p.out, roundsFile)
	var earlier rounds.File
	if exists(path) {
		var err error
		if earlier, err = rounds.Read(path); err != nil {
			return fmt.Errorf("add to earlier rounds, delete the file if they are of no use: %w", err)
		}
	}
	f := rounds.File{Command: quote(append([]string{"test/perf.sh"}, p.words...)), Machine: p.begun}
	f.Machine.LoadEnd = p.loadAverage(ctx)
	for i, r := range results {
		round := r.round(p.count)
		round.Series, round.Setup, round.Round = series, p.config()+"/"+r.direction, i
		if series == seriesCompare {
			round.Setup += "/" + r.side
		}
		f.Rounds = append(f.Rounds, round)
	}
	replaced := func(r rounds.Round) bool {
		return slices.ContainsFunc(f.Rounds, func(n rounds.Round) bool { return n.Series == r.Series && n.Setup == r.Setup })
	}
	earlier.Rounds = slices.DeleteFunc(earlier.Rounds, replaced)
	if len(earlier.Rounds) > 0 {
		if earlier.Machine.Commit != f.Machine.Commit {
			p.say("%s has rounds of %s beside those of %s: use a new directory for figures to publish", path, earlier.Machine.Commit, f.Machine.Commit)
		}
		f.Command = earlier.Command + " && " + f.Command
	}
	f.Rounds = append(earlier.Rounds, f.Rounds...)
	return rounds.Write(path, f)
}
