// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

const (
	// allowance is how much worse than its baseline a ratio may be.
	allowance = 1.25

	// crowdedAllowance takes its place on a machine that was crowded to the end, where a frame may cost wake-ups. When these are due
	// depends on who has the processors, and one costs Go more than C. In 4 runs with load averages of 19 to 27 on two
	// cores, 1 of 36 such verdicts was above the other allowance in the end, at 1.37 times its baseline. Rows that are about
	// bytes keep the other one: none was above 1.1.
	crowdedAllowance = 1.5

	// lowest is which quantile of a side's slots stands for it. What a busy machine does to a process only adds to its CPU time
	// per frame: cold caches, and batches that are smaller because a client does not get its turn. So the cheapest slots are those
	// that were left alone, and they come out alike on a quiet machine and on a busy one that has its quiet moments. It is not the
	// least of all, because a slot's two ends are not taken at the same moment: at each, some frames may have been paid for and
	// not yet arrived, or the other way round.
	lowest = 0.05

	// minSlots is how many slots of each side a ratio needs.
	minSlots = 10
)

// A slotCosts is what was measured of one program in one row: ns of CPU time per frame, of each slot.
type slotCosts []float64

// low is the quantile that stands for s.
func (s slotCosts) low() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(lowest*float64(len(sorted)))]
}

// A tally is what was measured in one row so far.
type tally struct {
	row                 gateRow
	crowded             bool // the machine is
	floor, daemon, slow slotCosts
}

// sides are the relays that are measured, in the order of the first round.
func (t *tally) sides() []string {
	if t.row.proven {
		return []string{t.row.floor, rig.DaemonSlow, t.row.daemon}
	}
	return []string{t.row.floor, t.row.daemon}
}

// add notes the slots of a measurement of one of the sides that had frames enough.
func (t *tally) add(kind string, slots []rig.Slot) {
	to := &t.daemon
	switch kind {
	case t.row.floor:
		to = &t.floor
	case rig.DaemonSlow:
		to = &t.slow
	}
	for _, s := range slots {
		if s.Received >= minFrames {
			*to = append(*to, float64(s.RelayCPUNS)/float64(s.Received))
		}
	}
}

// limit is what the ratio may be.
func (t *tally) limit(baseline float64) float64 {
	if t.crowded && t.row.wakes {
		return baseline * crowdedAllowance
	}
	return baseline * allowance
}

// judged tells whether both sides have slots enough to be compared.
func (t *tally) judged() bool { return len(t.floor) >= minSlots && len(t.daemon) >= minSlots }

// ratio is what the daemon takes for a frame, in terms of the floor.
func (t *tally) ratio() float64 { return t.daemon.low() / t.floor.low() }

// passes tells whether the daemon is within the allowance of its baseline.
func (t *tally) passes(baseline float64) bool { return t.judged() && t.ratio() <= t.limit(baseline) }

// detects tells whether the slow daemon would fail, were the baseline what the daemon itself has in this run.
func (t *tally) detects() bool {
	return t.judged() && len(t.slow) >= minSlots && t.slow.low() > t.daemon.low()*allowance
}

// describe is the row's line of the table.
func (t *tally) describe(baseline float64) string {
	if !t.judged() {
		return fmt.Sprintf("%-16s too few frames went through: %d slots of the floor and %d of the daemon", t.row.key, len(t.floor), len(t.daemon))
	}
	verdict := []string{"ok"}
	if !t.passes(baseline) {
		verdict = []string{fmt.Sprintf("more than %.2f", t.limit(baseline))}
	}
	if t.row.proven && len(t.slow) > 0 {
		verdict = append(verdict, fmt.Sprintf("the daemon made slower takes %.2f times that", t.slow.low()/t.daemon.low()))
	}
	return fmt.Sprintf("%-16s %7.0f ns %7.0f ns %7.2f %7.2f  %4d %4d  %s",
		t.row.key, t.daemon.low(), t.floor.low(), t.ratio(), baseline, len(t.daemon), len(t.floor), strings.Join(verdict, "; "))
}

// failure is what is wrong with t, if it is not what else the machine does.
func (t *tally) failure(baseline float64) error {
	switch {
	case !t.row.proven && len(t.floor) < minSlots: // the proven row has to be judged, so that a run cannot be for nothing
		progress("row %q is NOT JUDGED: the machine is so busy that not even the C program got enough frames through", t.row.key)
		return nil
	case !t.judged():
		return fmt.Errorf("row %q: too few frames went through: is something stuck, or the machine overloaded", t.row.key)
	case !t.passes(baseline):
		return fmt.Errorf("row %q: the daemon takes %.2f times the CPU time of the C program for a frame, and took %.2f: find out what costs so "+
			"much (docs/performance.md), or, if it is meant to be so, run %q on a quiet machine", t.row.key, t.ratio(), baseline, renewCommand)
	case t.row.proven && !t.detects():
		return fmt.Errorf("row %q: a daemon that was made slower on purpose is not found out, so the gate is blind: make %q slower, "+
			"or the measurement better", t.row.key, rig.Slowness.File)
	}
	return nil
}
