// SPDX-License-Identifier: Apache-2.0

package sequence

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// arrivals feeds t one frame every ms: number n at n ms plus the clocks' difference of 100 ms and 1 ms on the way, but not
// those that lost names.
func arrivals(t *Tracker, run, from, to uint64, lost func(n uint64) bool) {
	for n := from; n <= to; n++ {
		if !lost(n) {
			sent := time.Duration(n) * ms
			t.Take(Frame{Number: n, Sent: sent, Run: run}, sent+101*ms, true)
		}
	}
}

func none(uint64) bool { return false }

func between(a, b uint64) func(uint64) bool {
	return func(n uint64) bool { return n >= a && n <= b }
}

func TestTracker(t *testing.T) {
	tests := []struct {
		name string
		feed func(t *Tracker)
		want Report
	}{
		{"nothing", func(*Tracker) {}, Report{}},
		{"all", func(tr *Tracker) { arrivals(tr, 1, 1, 1000, none) }, Report{
			Frames: 1000, Last: 1000, LastCame: 1101 * ms, Offset: 101 * ms,
		}},
		{"begins late", func(tr *Tracker) { arrivals(tr, 1, 500, 600, none) }, Report{
			Frames: 101, Last: 600, LastCame: 701 * ms, Offset: 101 * ms,
		}},
		{"an outage of 300 ms", func(tr *Tracker) { arrivals(tr, 1, 1, 1000, between(401, 699)) }, Report{
			Frames: 701, Lost: 299, Last: 1000, LastCame: 1101 * ms, Offset: 101 * ms,
			Gaps: []Gap{{400, 700, 400 * ms, 700 * ms, 501 * ms, 801 * ms}},
			Hole: Gap{400, 700, 400 * ms, 700 * ms, 501 * ms, 801 * ms},
		}},
		{"losses without an outage", func(tr *Tracker) { arrivals(tr, 1, 1, 1000, func(n uint64) bool { return n%10 == 0 }) }, Report{
			Frames: 900, Lost: 99, Last: 999, LastCame: 1100 * ms, Offset: 101 * ms, // 1000 is not known to be lost
			Hole: Gap{9, 11, 9 * ms, 11 * ms, 110 * ms, 112 * ms},
		}},
		{"held back, none lost", func(tr *Tracker) {
			arrivals(tr, 1, 1, 400, none)
			for n := uint64(401); n <= 700; n++ {
				tr.Take(Frame{Number: n, Sent: time.Duration(n) * ms, Run: 1}, 801*ms, true)
			}
			arrivals(tr, 1, 701, 1000, none)
		}, Report{
			Frames: 1000, Last: 1000, LastCame: 1101 * ms, Offset: 101 * ms,
			Gaps: []Gap{{400, 401, 400 * ms, 401 * ms, 501 * ms, 801 * ms}},
		}},
		{"out of order and twice", func(tr *Tracker) {
			for _, n := range []uint64{1, 2, 5, 3, 4, 6, 6} {
				tr.Take(Frame{Number: n, Run: 1}, 10*ms, true)
			}
		}, Report{Frames: 7, Late: 3, Last: 6, LastCame: 10 * ms, Offset: 10 * ms, Hole: Gap{2, 5, 0, 0, 10 * ms, 10 * ms}}},
		{"two runs", func(tr *Tracker) {
			arrivals(tr, 1, 1, 500, none)
			tr.Take(Frame{Number: 1, Sent: 0, Run: 2}, 5000*ms, true)
			tr.Take(Frame{Number: 4, Sent: 3 * ms, Run: 2}, 5003*ms, true)
		}, Report{Frames: 502, Lost: 2, Last: 4, LastCame: 5003 * ms, Offset: 5000 * ms, Hole: Gap{1, 4, 0, 3 * ms, 5000 * ms, 5003 * ms}}},
		{"damaged", func(tr *Tracker) { tr.Take(Frame{Number: 1, Run: 1}, 0, false) }, Report{Frames: 1, Damaged: 1, Last: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tr Tracker
			tt.feed(&tr)
			assert.Equal(t, tt.want, tr.Report())
		})
	}
}

// TestCut: a gap is reported in the period in which it ended, whole.
func TestCut(t *testing.T) {
	var tr Tracker
	arrivals(&tr, 1, 1, 400, none)
	tr.Cut()
	assert.Equal(t, Report{Last: 400, LastCame: 501 * ms, Offset: 101 * ms}, tr.Report())
	arrivals(&tr, 1, 700, 1000, none)
	r := tr.Report()
	assert.Equal(t, uint64(299), r.Lost)
	assert.Equal(t, uint64(301), r.Frames)
	assert.Equal(t, 300*ms, r.Longest().Length())
	assert.Equal(t, uint64(299), r.Longest().Lost())
	assert.Equal(t, r.Longest(), r.Hole)
	tr.Cut()
	arrivals(&tr, 1, 1001, 1100, none)
	assert.Equal(t, Gap{}, tr.Report().Longest())
	assert.Equal(t, Gap{}, tr.Report().Hole)
}

// TestOver also looks for gaps by the time of sending.
func TestOver(t *testing.T) {
	var tr Tracker
	arrivals(&tr, 1, 1, 2000, func(n uint64) bool { return between(101, 149)(n) || between(1001, 1299)(n) })
	r := tr.Report()
	require.Len(t, r.Gaps, 2)
	assert.Equal(t, r.Gaps[0], r.Over(230*ms))
	assert.Equal(t, r.Gaps[1], r.Over(1300*ms))
	assert.Equal(t, Gap{}, r.Over(500*ms), "frames came then")
	assert.Equal(t, r.Gaps[1], r.Longest())
	assert.Equal(t, r.Gaps[0], r.Sent(101*ms))
	assert.Equal(t, r.Gaps[1], r.Sent(1300*ms))
	assert.Equal(t, Gap{}, r.Sent(1301*ms))
}

// TestKeepsTheLongest: many short gaps do not push a long one out.
func TestKeepsTheLongest(t *testing.T) {
	var tr Tracker
	arrivals(&tr, 1, 1, 200, none)
	arrivals(&tr, 1, 500, 600, none)
	arrivals(&tr, 1, 601, 30_000, func(n uint64) bool { return n%100 < 25 })
	r := tr.Report()
	assert.Len(t, r.Gaps, maxGaps)
	assert.Equal(t, 300*ms, r.Gaps[0].Length())
}

func TestFrame(t *testing.T) {
	dst, src := []byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}
	b := New(dst, src, 40)
	Put(b, Frame{Number: 0x0102, Sent: 0x0304, Run: 0x0506})
	f, ok, intact := Parse(b)
	assert.Equal(t, Frame{Number: 0x0102, Sent: 0x0304, Run: 0x0506}, f)
	assert.True(t, ok)
	assert.True(t, intact)

	b[39] = 0
	_, ok, intact = Parse(b)
	assert.True(t, ok)
	assert.False(t, intact)
	assert.Len(t, New(dst, src, 0), MinSize)
	for name, foreign := range map[string][]byte{
		"short": b[:MinSize-1], "of another type": append(append([]byte(nil), b[:12]...), make([]byte, 30)...), "without a number": New(dst, src, 60),
	} {
		_, ok, _ := Parse(foreign)
		assert.False(t, ok, name)
	}
}
