// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

const (
	strictGC     = "GOGC=10" // garbage is collected after 400 KiB of it, so that two bytes for a frame show
	garbageTries = 3         // before it is believed: something else in the daemon may have been due just then
	garbageLoad  = 300_000   // frames
)

// noGarbage is an error when frames cost the daemon garbage collections.
func (g *gate) noGarbage(ctx context.Context) error {
	var errs []error
	for _, r := range gateRows() {
		if r.frame != 0 || !slices.ContainsFunc(g.tallies, func(t *tally) bool { return t.row.key == r.key }) {
			continue
		}
		count := 1
		for try := 0; count > 0 && try < garbageTries; try++ {
			var err error
			if count, err = g.collections(ctx, r.daemon, r.load()); err != nil {
				return fmt.Errorf("count garbage collections of row %q: %w", r.key, err)
			}
		}
		if count > 0 {
			errs = append(errs, fmt.Errorf("row %q: %d garbage collections in %d frames, want none: the data path allocates; find where with "+
				"testing.AllocsPerRun", r.key, count, garbageLoad))
		}
	}
	progress("garbage was looked for in %d frames of each row", garbageLoad)
	return errors.Join(errs...)
}

// collections counts those of a daemon while it relays the frames of l.
func (g *gate) collections(ctx context.Context, kind string, l rig.Load) (count int, err error) {
	r, err := g.rig.Start(kind, "GODEBUG=gctrace=1", strictGC)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	l.Frames, l.Slots = garbageLoad, 1
	l.Mark = func(event string) {
		if event == rig.EventBegin {
			count -= r.Collections()
		} else {
			count += r.Collections()
		}
	}
	res, err := g.rig.Drive(ctx, r, l)
	if err == nil && res.Received < garbageLoad {
		err = errors.New("only " + strconv.FormatInt(res.Received, 10) + " frames arrived in time")
	}
	return count, err
}

const (
	pingTries = 12 // before it is believed
	pingTime  = 300 * time.Millisecond
	// pingLimit is how many times the C program's p99 the daemon's may be. In single tries it was anything between 0.05 and 58 on a quiet
	// machine; the best of seven of each were 11 to 12.
	pingLimit = 40
)

// noDelay is an error when round trips beside a flow take the daemon long, in the best of some tries.
func (g *gate) noDelay(ctx context.Context) error {
	load := echoBeside(rig.Daemon, single).load
	load.Time, load.Warm = pingTime, slotWarm
	best := map[string]int64{}
	for try := 1; ; try++ {
		for _, side := range []string{rig.Floor, rig.Daemon} {
			res, err := g.rig.Measure(ctx, side, load)
			if err != nil {
				return fmt.Errorf("measure round trips beside a flow with %s: %w", side, err)
			}
			if res.RoundTrips > 0 {
				best[side] = min(cmp.Or(best[side], res.RTTP99NS), res.RTTP99NS)
			}
		}
		if err := delayed(best[rig.Daemon], best[rig.Floor]); err == nil || try == pingTries {
			return err
		}
	}
}

// delayed is what is wrong with p99s in ns, of the daemon and of the C program; 0: no round trip was over in time.
func delayed(ours, floor int64) error {
	progress("round trips beside a flow: p99 %d µs, with C %d", ours/1e3, floor/1e3)
	if ours > 0 && ours <= pingLimit*floor {
		return nil
	}
	return fmt.Errorf("round trips beside a flow: p99 of %d µs, with the C program %d: want no more than %d times that", ours/1e3, floor/1e3, pingLimit)
}
