// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// renewBatches is how many batches a baseline is made from.
const renewBatches = 5

// check measures until every row passes and the slow daemon was found out, or the patience is at an end.
func (g *gate) check(ctx context.Context) error {
	if err := g.prepare(ctx); err != nil {
		return err
	}
	open := g.tallies
	for batch := range g.p.batches {
		progress(fmt.Sprintf("batch %d of at most %d: %s", batch+1, g.p.batches, strings.Join(names(open), " ")))
		if err := g.batch(ctx, batch, open); err != nil {
			return err
		}
		if g.p.verbose {
			g.print(open)
		}
		if open = g.open(open); len(open) == 0 {
			break
		}
	}
	if len(open) > 0 && crowded() {
		progress("the machine is crowded: rows where frames cost wake-ups are allowed more")
		for _, t := range g.tallies {
			t.crowded = true
		}
		open = g.open(open)
	}
	g.print(g.tallies)
	var failures []error
	for _, t := range open {
		failures = append(failures, g.failure(t)...)
	}
	if g.p.frames > 0 {
		failures = append(failures, g.noGarbage(ctx))
	}
	return errors.Join(failures...)
}

// batch measures some rows a few times.
func (g *gate) batch(ctx context.Context, batch int, some []*tally) error {
	for i := range g.p.rounds {
		if err := g.round(ctx, batch*g.p.rounds+i, some); err != nil {
			return err
		}
	}
	return nil
}

// open are the rows among some that are not decided for the better.
func (g *gate) open(some []*tally) (open []*tally) {
	for _, t := range some {
		if !t.passes(g.base.Ratios[t.row.key]) || t.row.proven && !t.detects() {
			open = append(open, t)
		}
	}
	return open
}

// failure is what is wrong with t.
func (g *gate) failure(t *tally) (errs []error) {
	base := g.base.Ratios[t.row.key]
	switch {
	case t.overloaded() && !t.row.proven: // the proven row has to be judged, so that a run cannot be for nothing
		progress(fmt.Sprintf("row %q is NOT JUDGED: the machine is so busy that not even the C program got enough frames through", t.row.key))
	case !t.judged():
		errs = append(errs, fmt.Errorf("row %q: too few frames went through in %d batches: is something stuck, or the machine overloaded",
			t.row.key, g.p.batches))
	case !t.passes(base):
		errs = append(errs, fmt.Errorf("row %q (%s): the daemon takes %.2f times the CPU time of the C program for a frame, and took %.2f "+
			"at commit %s: find out what costs so much with \"go run ./test/bench --profile perf\", or, if it is meant to be so, run %q on a quiet machine",
			t.row.key, t.row.text, t.ratio(), base, g.base.Commit, renewCommand))
	}
	if t.row.proven && t.judged() && !t.detects() {
		errs = append(errs, fmt.Errorf("row %q: a daemon that was made slower on purpose is not found out, so the gate is blind: make %q slower, "+
			"or the measurement better", t.row.key, slowness.File))
	}
	return errs
}

func names(some []*tally) []string {
	var all []string
	for _, t := range some {
		all = append(all, t.row.key)
	}
	return all
}

func (g *gate) print(some []*tally) {
	fmt.Printf("%-16s %10s %10s %7s %7s  %s\n", "row", "daemon", "C", "ratio", "was", "slots")
	for _, t := range some {
		fmt.Println(t.describe(g.base.Ratios[t.row.key]))
		if t.row.proven && t.judged() && len(t.slow) >= minSlots {
			found := "found out"
			if !t.detects() {
				found = "NOT FOUND OUT"
			}
			fmt.Printf("%-16s %7.0f ns: %.2f of the daemon, %s\n", "  made slower", t.slow.low(), t.slow.low()/t.daemon.low(), found)
		}
	}
}

// renew measures all rows and writes the baselines.
func (g *gate) renew(ctx context.Context) error {
	if err := g.prepare(ctx); err != nil {
		return err
	}
	for batch := range renewBatches {
		progress(fmt.Sprintf("batch %d of %d", batch+1, renewBatches))
		if err := g.batch(ctx, batch, g.tallies); err != nil {
			return err
		}
	}
	b := baseline{
		Renew: renewCommand, Date: time.Now().UTC().Format(time.DateOnly), Machine: machine(ctx),
		Commit: output(ctx, "git", "describe", "--always", "--dirty", "--match="), Ratios: map[string]float64{},
	}
	for _, t := range g.tallies {
		if !t.judged() {
			return fmt.Errorf("row %q: too few frames went through", t.row.key)
		}
		b.Ratios[t.row.key] = float64(int(t.ratio()*100+0.5)) / 100
	}
	g.base = b
	g.print(g.tallies)
	return b.write(baselineFile)
}

func machine(ctx context.Context) string {
	return fmt.Sprintf("%d cores, %s, %s, load average %.1f", runtime.NumCPU(), output(ctx, "uname", "-srm"), runtime.Version(), loadAverage())
}

// loadAverage is that of the last minute, 0 where it is not known.
func loadAverage() float64 {
	load, _ := os.ReadFile("/proc/loadavg")
	last, _, _ := strings.Cut(string(load), " ")
	n, _ := strconv.ParseFloat(last, 64)
	return n
}

func crowded() bool { return loadAverage() > crowd*float64(runtime.NumCPU()) }

// output is what a command prints, or "unknown".
func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
