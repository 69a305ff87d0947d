// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

const (
	baselineFile = "test/bench/baseline.json" // from the root of the repository
	renewCommand = "go run ./test/bench -renew"

	gateRounds   = 3 // of a batch; each has slots enough for a verdict
	gateBatches  = 8 // how often a row that fails is measured before it is believed
	renewBatches = 7 // that a baseline is made from

	// slotTime is short, so that one is left alone now and then by what else the machine does, and long against the time that
	// frames are under way.
	slotTime = 40 * time.Millisecond
	slots    = 6
	slotWarm = 50 * time.Millisecond

	// minFrames is how many frames a slot needs. There are 256 under way at most, whose cost may be in one slot and their arrival in
	// another.
	minFrames = 1000

	// crowd is the load average per core from which on a machine is crowded. The gate's own processes are one or two per core.
	crowd = 4
)

//go:embed baseline.json
var baselineJSON []byte

// A baseline is what the ratios were when they were last reviewed. Where runs on one machine differ, the larger ratio is
// committed: from-passed was at 1.06 and at 1.40 within an hour, with the same programs.
type baseline struct {
	Renew   string             `json:"renew"` // the command that writes the file anew
	Date    string             `json:"date"`
	Machine string             `json:"machine"`
	Commit  string             `json:"commit"`
	Ratios  map[string]float64 `json:"ratios"` // CPU time per frame of the daemon over the floor's, by the rows' keys
}

func readBaseline(data []byte) (b baseline, err error) {
	if err := json.Unmarshal(data, &b); err != nil {
		return b, fmt.Errorf("read %s, which %q writes: %w", baselineFile, renewCommand, err)
	}
	for _, r := range gateRows() {
		if b.Ratios[r.key] <= 0 {
			return b, fmt.Errorf("%s has no ratio of row %q: run %q on a quiet machine", baselineFile, r.key, renewCommand)
		}
	}
	return b, nil
}

// A gateRow is one path through the daemon.
type gateRow struct {
	key           string
	daemon, floor string // kinds of relays: the daemon, and the C program that it is held against
	kinds         string // of sender and receiver; of more, the last one is what all others send to as fast as they can
	batch, frame  int
	wakes         bool // a frame may cost a wake-up, or part of one
	proven        bool // the slow daemon is measured in this row
}

func (r gateRow) name() string { return r.key }

// gateRows are all of them. The paths of datagram clients differ by direction: by path, one way is through a shared socket.
//
// What goes to an unconnected path is not among them. Linux lets 11 datagrams wait there, so it depends on how soon the receiver gets its
// turn how often the daemon has to wait, and that costs it more than it costs C: 1.3 times the C program's time on a quiet machine,
// 1.9 times on a busy one, with the same daemon. The code is that of to-passed.
func gateRows() []gateRow {
	const d, f, v, c = rig.Daemon, rig.Floor, rig.DaemonVmnet, rig.VmnetC
	return []gateRow{
		{"stream", d, f, "ss", batch, 0, false, true},
		{"stream-single", d, f, "ss", single, 0, true, false},
		{"stream-small", d, f, "ss", batch, shortest, false, false},
		{"to-passed", d, f, "sd", batch, 0, true, false},
		{"from-passed", d, f, "ds", batch, 0, true, false},
		{"passed", d, f, "dd", batch, 0, true, false},
		{"from-path", d, f, "us", batch, 0, true, false},
		{"to-connected", d, f, "sc", batch, 0, true, false},
		{"from-connected", d, f, "cs", batch, 0, true, false},
		{"fan", d, f, "sssssssss", single, 0, true, false},
		{"vmnet", v, c, "ss", batch, 0, true, false},
		{"vmnet-single", v, c, "ss", single, 0, true, false},
	}
}

func (r gateRow) load() rig.Load {
	l := rig.Load{Clients: len(r.kinds), Pairs: 1, Kinds: r.kinds, Batch: r.batch, Frame: r.frame, Time: slots * slotTime, Slots: slots, Warm: slotWarm}
	if l.Clients > 2 {
		l.Pairs, l.Fan, l.Window = 0, true, rig.OpenLoop
	}
	return l
}

// A gate is one run. It compares the daemon's CPU time per frame with that of a C program that does the same job, measured in turns:
// the ratio says little about the machine, its load, or the day; throughput would say little about anything else. A row that fails is
// measured again: what other programs do to a measurement passes, a slower daemon stays slower. It proves itself each
// time: a daemon that was made slower on purpose has to fail.
type gate struct {
	rig      *rig.Rig
	base     baseline
	renewing bool
	tallies  []*tally
}

func (g *gate) run(ctx context.Context, only []string) (err error) {
	for _, r := range chosen(gateRows(), only) {
		t := &tally{row: r}
		g.tallies = append(g.tallies, t)
		if err := g.rig.Prepare(ctx, t.sides()...); err != nil {
			return err
		}
	}
	if g.renewing {
		return g.renew(ctx)
	}
	if g.base, err = readBaseline(baselineJSON); err != nil {
		return err
	}
	return g.check(ctx)
}

// check measures until every row passes and the slow daemon was found out, or the patience is at an end.
func (g *gate) check(ctx context.Context) error {
	open := g.tallies
	for n := 0; n < gateBatches && len(open) > 0; n++ {
		progress("batch %d of at most %d: %d rows", n+1, gateBatches, len(open))
		if err := g.batch(ctx, open); err != nil {
			return err
		}
		open = g.open(open)
	}
	if load, _ := strconv.ParseFloat(lab.LoadAverage(), 64); len(open) > 0 && load > crowd*float64(runtime.NumCPU()) {
		progress("the machine is crowded: rows where frames cost wake-ups are allowed more")
		for _, t := range open {
			t.crowded = true
		}
		open = g.open(open)
	}
	g.print()
	var failures []error
	for _, t := range open {
		failures = append(failures, t.failure(g.base.Ratios[t.row.key]))
	}
	return errors.Join(append(failures, g.noGarbage(ctx), g.noDelay(ctx))...)
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

// batch measures some rows a few times with each program, A B and then B A.
func (g *gate) batch(ctx context.Context, some []*tally) error {
	for round := range gateRounds {
		if err := g.round(ctx, some, round%2 == 1); err != nil {
			return err
		}
	}
	return nil
}

// round measures some rows once, with new processes.
func (g *gate) round(ctx context.Context, some []*tally, back bool) (err error) {
	relays := map[string]*rig.Relay{}
	defer func() {
		for _, r := range relays {
			err = errors.Join(err, r.Stop())
		}
	}()
	for _, t := range some {
		kinds := t.sides()
		if back {
			slices.Reverse(kinds)
		}
		for _, kind := range kinds {
			if relays[kind] == nil {
				r, err := g.rig.Start(kind)
				if err != nil {
					return err
				}
				relays[kind] = r
			}
			res, err := g.rig.Drive(ctx, relays[kind], t.row.load())
			if err != nil {
				return fmt.Errorf("measure row %q with %s: %w", t.row.key, kind, err)
			}
			t.add(kind, res.Slots)
		}
	}
	return nil
}

func (g *gate) print() {
	fmt.Printf("%-16s %10s %10s %7s %7s  %s\n", "row", "daemon", "C", "ratio", "was", "slots")
	for _, t := range g.tallies {
		fmt.Println(t.describe(g.base.Ratios[t.row.key]))
	}
}

// renew measures all rows at length and writes the baselines.
func (g *gate) renew(ctx context.Context) error {
	for n := range renewBatches {
		progress("batch %d of %d", n+1, renewBatches)
		if err := g.batch(ctx, g.tallies); err != nil {
			return err
		}
	}
	m := lab.ThisMachine(ctx)
	g.base = baseline{
		Renew: renewCommand, Date: m.Date.Format(time.DateOnly), Commit: m.Commit, Ratios: map[string]float64{},
		Machine: fmt.Sprintf("%s, %d cores, %s, %s, load average %s", m.CPU, m.Cores, m.Kernel, m.Go, lab.LoadAverage()),
	}
	for _, t := range g.tallies {
		if !t.judged() {
			return fmt.Errorf("row %q: too few frames went through", t.row.key)
		}
		g.base.Ratios[t.row.key] = float64(int(t.ratio()*100+0.5)) / 100
	}
	g.print()
	data, err := json.MarshalIndent(g.base, "", "\t")
	if err != nil {
		return fmt.Errorf("encode baselines: %w", err)
	}
	return os.WriteFile(baselineFile, append(data, '\n'), 0o644)
}
