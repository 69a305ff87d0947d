// SPDX-License-Identifier: Apache-2.0

package sequence

import (
	"slices"
	"time"
)

// minGap is the shortest time without a frame that is kept as a Gap; maxGaps is how many are kept, the longest ones.
const (
	minGap  = 20 * time.Millisecond
	maxGaps = 8
)

// A Gap lies between two frames of a run that arrived one after the other. Times are in ns, so that they survive JSON.
type Gap struct {
	// Before and After are the numbers of the two frames: After − Before − 1 frames between them did not arrive.
	Before, After uint64
	// SentBefore and SentAfter are on the sender's clock, CameBefore and CameAfter on the receiver's.
	SentBefore, SentAfter, CameBefore, CameAfter time.Duration
}

// Length is how long nothing arrived.
func (g Gap) Length() time.Duration { return g.CameAfter - g.CameBefore }

// Lost is the number of frames between the two that did not arrive.
func (g Gap) Lost() uint64 { return g.After - g.Before - 1 }

// A Report is what has come from one sender since the last Cut. A gap belongs to the period in which it ended.
type Report struct {
	Frames, Lost uint64
	// Late are frames that came after one with a higher number: out of order, or twice.
	Late uint64
	// Damaged are frames whose contents were not the sender's. They count as Frames too.
	Damaged uint64
	// Last is the number of the latest frame of the run; LastCame is when it came on the receiver's clock.
	Last     uint64
	LastCame time.Duration
	// Gaps are the longest ones of 20 ms and more, in the order of time.
	Gaps []Gap
	// Hole is the gap with the most lost frames, however short it was: the zero Gap when none was lost.
	Hole Gap
	// Offset is the smallest difference between a frame's arrival on the receiver's clock and its sending on the sender's,
	// over the whole run: the difference of the two clocks plus the shortest way.
	Offset time.Duration
}

// Longest is the longest gap, the zero Gap when there was none of 20 ms.
func (r Report) Longest() (g Gap) {
	for _, x := range r.Gaps {
		if x.Length() > g.Length() {
			g = x
		}
	}
	return g
}

// Over is the gap during which the time came on the receiver's clock, the zero Gap when frames arrived around it.
func (r Report) Over(came time.Duration) (g Gap) {
	for _, x := range r.Gaps {
		if x.CameBefore <= came && came < x.CameAfter {
			return x
		}
	}
	return Gap{}
}

// Sent is the gap between the last frame that was sent before the time sent on the sender's clock and the first one after,
// the zero Gap when they arrived close to each other.
func (r Report) Sent(sent time.Duration) (g Gap) {
	for _, x := range r.Gaps {
		if x.SentBefore < sent && sent <= x.SentAfter {
			return x
		}
	}
	return Gap{}
}

// A Tracker follows the frames of one sender. The zero Tracker has seen none. It is not safe for concurrent use.
type Tracker struct {
	run     uint64
	started bool
	sent    time.Duration // of the latest frame
	r       Report
}

// Take notes a frame that came at the time came on the receiver's clock. A frame of another run than the one before begins
// anew: what lies between two runs is no gap.
func (t *Tracker) Take(f Frame, came time.Duration, intact bool) {
	t.r.Frames++
	if !intact {
		t.r.Damaged++
	}
	offset := came - f.Sent
	switch {
	case !t.started || f.Run != t.run:
		t.started, t.run, t.r.Offset = true, f.Run, offset
	case f.Number <= t.r.Last:
		t.r.Late++
		if t.r.Lost > 0 {
			t.r.Lost--
		}
		return
	default:
		t.r.Lost += f.Number - t.r.Last - 1
		t.r.Offset = min(t.r.Offset, offset)
		g := Gap{
			Before: t.r.Last, After: f.Number, SentBefore: t.sent, SentAfter: f.Sent, CameBefore: t.r.LastCame, CameAfter: came,
		}
		if g.Lost() > 0 && (t.r.Hole == Gap{} || g.Lost() > t.r.Hole.Lost()) {
			t.r.Hole = g
		}
		t.keep(g)
	}
	t.r.Last, t.r.LastCame, t.sent = f.Number, came, f.Sent
}

func (t *Tracker) keep(g Gap) {
	if g.Length() < minGap {
		return
	}
	if t.r.Gaps = append(t.r.Gaps, g); len(t.r.Gaps) <= maxGaps {
		return
	}
	shortest := 0
	for i, x := range t.r.Gaps {
		if x.Length() < t.r.Gaps[shortest].Length() {
			shortest = i
		}
	}
	t.r.Gaps = slices.Delete(t.r.Gaps, shortest, shortest+1)
}

// Report returns what has come since the last Cut.
func (t *Tracker) Report() Report {
	r := t.r
	r.Gaps = slices.Clone(r.Gaps)
	return r
}

// Cut begins a new period. The latest frame stays known, so that a gap over the cut is seen, in the new period.
func (t *Tracker) Cut() {
	t.r = Report{Last: t.r.Last, LastCame: t.r.LastCame, Offset: t.r.Offset}
}
