// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

const (
	// allowance is how much worse than its baseline a ratio may be.
	allowance = 1.25

	// crowdedAllowance takes its place on a machine that was crowded to the end, where a frame may cost wake-ups. When these are due
	// depends on who has the processors, and one costs Go more than C. In 4 runs with load averages of 19 to 27 on two
	// cores, 1 of 36 such verdicts was above the other allowance after 6 batches, at 1.37 times its baseline. Rows that are about
	// bytes keep the other one: none was above 1.1.
	crowdedAllowance = 1.5

	// crowd is the load average per core from which on a machine is crowded. The gate's own processes are one or two per core.
	crowd = 4

	// lowest is which quantile of a side's slots stands for it. What a busy machine does to a process only adds to its CPU time
	// per frame: cold caches, and batches that are smaller because a client does not get its turn. So the cheapest slots are those
	// that were left alone, and they come out alike on a quiet machine and on a busy one that has its quiet moments. It is not the
	// least of all, because a slot's two ends are not taken at the same moment: at each, some frames may have been paid for and
	// not yet arrived, or the other way round.
	lowest = 0.05

	// minSlots is how many slots of each side a ratio needs.
	minSlots = 10
)

// A side is what was measured of one program in one row: ns of CPU time per frame, of each slot.
type side []float64

// low is the quantile that stands for s.
func (s side) low() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(lowest*float64(len(sorted)))]
}

// A tally is what was measured in one row so far.
type tally struct {
	row                 row
	crowded             bool // the machine is
	floor, daemon, slow side
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

// overloaded tells whether not even the C program got enough through for a comparison.
func (t *tally) overloaded() bool { return len(t.floor) < minSlots }

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
		return fmt.Sprintf("%-16s too few frames went through: %d slots of the floor and %d of the daemon, want %d",
			t.row.key, len(t.floor), len(t.daemon), minSlots)
	}
	verdict := "ok"
	if !t.passes(baseline) {
		verdict = fmt.Sprintf("FAILED: more than %.2f", t.limit(baseline))
	}
	return fmt.Sprintf("%-16s %7.0f ns %7.0f ns %7.2f %7.2f  %4d %4d  %s",
		t.row.key, t.daemon.low(), t.floor.low(), t.ratio(), baseline, len(t.daemon), len(t.floor), verdict)
}
