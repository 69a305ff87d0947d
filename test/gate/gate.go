// SPDX-License-Identifier: Apache-2.0

// Command gate fails when the daemon takes more CPU time for a frame than it did, or makes garbage. CI runs it, "make test.gate" does
// as well.
//
// What it compares is the daemon's CPU time per frame with that of a C program that does the same job, measured in turns. The
// ratio of the two says little about the machine, its load, or the day; throughput would say little about anything else. Each row has
// a committed ratio, its baseline, and fails when it is a quarter worse. A row that fails is measured again, and again, for a minute or
// two in all: what other programs do to a measurement passes, a slower daemon stays slower.
//
// The gate also proves itself, each time: a daemon that was made slower on purpose has to fail.
//
//	go run ./test/gate          check, after "make build"
//	go run ./test/gate -renew   take today's ratios for the baselines, on a quiet machine and on purpose
//
// Where runs on one machine differ, the larger ratio is committed: from-passed was at 1.06 and at 1.40 within an hour, with the same
// programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// renewCommand is how baselines are made.
const renewCommand = "go run ./test/gate -renew"

// params are what the command line sets.
type params struct {
	daemon  string // path of the binary under test
	only    []string
	batches int // that a failing row is measured, at most
	rounds  int // of a batch
	frames  int // relayed while garbage collections are counted, of each kind; 0: they are not
	renew   bool
	verbose bool
}

func main() {
	p, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		err = run(ctx, p)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

func parse(args []string) (params, error) {
	var p params
	var only string
	f := flag.NewFlagSet("gate", flag.ContinueOnError)
	f.StringVar(&p.daemon, "daemon", "bin/socket_vmnet2", "the `binary` under test")
	f.StringVar(&only, "only", "", "comma-separated `keys` of the rows to measure: "+strings.Join(keys(), ", "))
	f.IntVar(&p.rounds, "rounds", 4, "measurements of a batch, of each row")
	f.IntVar(&p.batches, "batches", 6, "how often a row that fails is measured before it is believed")
	f.IntVar(&p.frames, "frames", 300_000, "how many `frames` of each kind of flow may not cost a garbage collection; 0: do not look")
	f.BoolVar(&p.renew, "renew", false, "measure everything at length and write "+baselineFile)
	f.BoolVar(&p.verbose, "v", false, "print the table after each batch")
	if err := f.Parse(args); err != nil {
		return p, err
	}
	if f.NArg() > 0 {
		return p, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if p.rounds < 1 || p.batches < 1 {
		return p, errors.New("-rounds or -batches below 1")
	}
	for key := range strings.SplitSeq(only, ",") {
		if key == "" {
			continue
		}
		if !slices.Contains(keys(), key) {
			return p, fmt.Errorf("unknown row %q in -only: want some of %s", key, strings.Join(keys(), ", "))
		}
		p.only = append(p.only, key)
	}
	if p.renew && len(p.only) > 0 {
		return p, errors.New("-renew writes all baselines: leave out -only")
	}
	return p, nil
}

// run does everything. The error says what failed.
func run(ctx context.Context, p params) error {
	g := gate{p: p}
	var err error
	if !p.renew {
		if g.base, err = readBaseline(baselineJSON); err != nil {
			return err
		}
	}
	if g.rig, err = rig.New(ctx, rig.Options{Daemon: p.daemon, Kinds: kinds(), Progress: progress}); err != nil {
		return err
	}
	defer g.rig.Close()
	for _, r := range rows {
		if len(p.only) == 0 || slices.Contains(p.only, r.key) {
			g.tallies = append(g.tallies, &tally{row: r})
		}
	}
	if p.renew {
		return g.renew(ctx)
	}
	return g.check(ctx)
}

// progress tells what is being done.
func progress(what string) { fmt.Fprintln(os.Stderr, "gate:", what) }
