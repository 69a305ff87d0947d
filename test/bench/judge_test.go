// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// flows are measurements of 1 s each with the given frames per second and CPU ns per frame.
func flows(cpu float64, rates ...int64) []measurement {
	var all []measurement
	for i, rate := range rates {
		all = append(all, measurement{Round: i, Result: rig.Result{WallNS: int64(time.Second), Received: rate}, CPU: cpu})
	}
	return all
}

// echoes are measurements with the given round trips in ns.
func echoes(cpu float64, p50 ...int64) []measurement {
	var all []measurement
	for i, ns := range p50 {
		all = append(all, measurement{Round: i, Result: rig.Result{RTTP50NS: ns}, CPU: cpu})
	}
	return all
}

// tails are measurements with the given 99th percentiles in ns, whose medians say something else.
func tails(p99 ...int64) []measurement {
	var all []measurement
	for i, ns := range p99 {
		all = append(all, measurement{Round: i, Result: rig.Result{RTTP50NS: 1, RTTP99NS: ns}, CPU: 1})
	}
	return all
}

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		name          string
		row           row
		subject, base []measurement
		figure        float64
		byCPU, met    bool
	}{
		{"best decides", row{target: 0.85}, flows(200, 90, 80, 100), flows(100, 100, 70, 80), 1, false, true},
		{"missed", row{target: 0.85}, flows(100, 80, 80, 80), flows(100, 100, 100, 100), 0.8, false, false},
		{"noisy subject", row{target: 0.85}, flows(100, 100, 50, 50), flows(90, 100, 100, 100), 0.9, true, true},
		{"noisy base", row{target: 0.85}, flows(200, 100, 100, 100), flows(100, 100, 10, 10), 0.5, true, false},
		{"nothing arrived", row{target: 0.9}, flows(0, 0, 0, 0), flows(100, 100, 50, 50), 0, false, false},
		{"latency", row{target: 1.15, latency: true}, echoes(300, 11000, 12000), echoes(100, 10000, 10000), 1.1, false, true},
		{"latency missed", row{target: 1.15, latency: true}, echoes(100, 12000, 12000), echoes(100, 10000, 12000), 1.2, false, false},
		{"noisy latency", row{target: 1.15, latency: true}, echoes(200, 5500, 90000, 90000), echoes(100, 5000, 6000, 5000), 1.1, false, true},
		{"CPU time asked for", row{target: 1.3, cpu: true}, flows(100, 100, 100), flows(150, 100, 100), 1.5, true, true},
		{"cost", row{most: 1.4}, flows(130, 100, 100, 100), flows(100, 90, 90, 90), 1.3, true, true},
		{"cost missed", row{most: 1.4}, flows(150, 100, 100, 100), flows(100, 90, 90, 90), 1.5, true, false},
		{"nothing arrived for a cost", row{most: 1.4}, flows(0, 0, 0, 0), flows(100, 90, 90, 90), 0, true, false},
		{"tail of the latency", row{target: 3, latency: true, p99: true}, tails(90_000, 60_000), tails(30_000, 20_000), 3, false, true},
		{"tail missed", row{target: 3, latency: true, p99: true}, tails(90_000, 61_000), tails(30_000, 20_000), 3.05, false, false},
		{"only shown", row{}, flows(100, 1), flows(100, 100), 0.01, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.row.base = "something"
			v := compare(tt.row, tt.subject, tt.base)
			assert.InDelta(t, tt.figure, v.figure(), 1e-9)
			assert.Equal(t, tt.byCPU, v.ByCPU, "decided by CPU")
			assert.Equal(t, tt.met, v.Met, "met")
		})
	}
}

func TestComparePairs(t *testing.T) {
	round := func(cpu float64, pairs ...int64) []measurement {
		return []measurement{{Result: rig.Result{WallNS: int64(time.Second), Received: 1000, Pairs: pairs}, CPU: cpu}}
	}
	v := compare(row{base: "something", pair: 2}, round(100, 900, 100), round(300, 500, 500))
	assert.InDelta(t, 0.2, v.figure(), 1e-9)
	assert.Zero(t, v.CPURatio)
	assert.Zero(t, v.SubjectCPU)
}

func TestOutcome(t *testing.T) {
	met := verdict{Target: 1, Subject: 2}.decide()
	missed := verdict{Text: "a target", Target: 2, Subject: 1}.decide()
	invalid := verdict{Text: "the floor", Target: 0.8, Subject: 0.5, Must: true}.decide()
	collected := verdict{Text: "collections", Subject: 1, AtMost: true}.decide()

	assert.NoError(t, report{Verdicts: []verdict{met}}.outcome(true))
	assert.NoError(t, report{Verdicts: []verdict{met, missed}}.outcome(false))
	assert.ErrorIs(t, report{Verdicts: []verdict{met, missed, collected}}.outcome(true), missedError(2))
	assert.ErrorContains(t, report{Verdicts: []verdict{met, invalid}}.outcome(false), "this run is invalid: the floor: 0.50, needs 0.80")
}

func TestRowsNameExistingSetups(t *testing.T) {
	names := map[string]bool{}
	for _, s := range setups() {
		require.False(t, names[s.name], "set-up %q twice", s.name)
		names[s.name] = true
	}
	used := map[string]bool{}
	keys := map[string]bool{}
	for _, r := range rows() {
		assert.True(t, names[r.subject], "row %q: set-up %q", r.key, r.subject)
		assert.True(t, names[r.base], "row %q: set-up %q", r.key, r.base)
		assert.False(t, keys[r.key], "row %q twice", r.key)
		assert.False(t, r.most > 0 && (r.target > 0 || r.latency), "row %q has two targets", r.key)
		used[r.subject], used[r.base], keys[r.key] = true, true, true
	}
	for _, s := range setups() {
		assert.True(t, used[s.name] || len(s.series) > 0, "set-up %q is in no row and no series", s.name)
	}
}

// A set-up that several parts name is measured once for all of them.
func TestSetupsOfTheSameNameAreTheSame(t *testing.T) {
	seen := map[string]setup{}
	for _, p := range parts() {
		for _, s := range p.setups {
			if other, found := seen[s.name]; found {
				assert.Equal(t, other.load, s.load, s.name)
				assert.Equal(t, other.relay, s.relay, s.name)
				assert.Equal(t, other.parts, s.parts, s.name)
			}
			seen[s.name] = s
		}
	}
	i := slices.IndexFunc(setups(), func(s setup) bool { return s.name == "daemon 2 batch" })
	assert.Equal(t, []string{seriesPair, seriesSizes, seriesIdlers, seriesActive}, setups()[i].series)
}

func TestChosenRowsCheckTheFloor(t *testing.T) {
	var got []string
	for _, r := range (choice{Only: []string{"pair", "idle62"}}).rows() {
		got = append(got, r.key)
	}
	assert.Equal(t, []string{"floor", "pair", "idle62"}, sorted(got, "floor", "pair", "idle62"))
	assert.Len(t, choice{Only: []string{"idle62"}}.rows(), 1)
	_, err := choose("pair,fast", "")
	assert.ErrorContains(t, err, `unknown row "fast"`)
	_, err = choose("", "sizes,colours")
	assert.ErrorContains(t, err, `unknown series "colours"`)
}

// sorted are the keys that are wanted, in that order, and the others.
func sorted(got []string, wanted ...string) []string {
	slices.SortStableFunc(got, func(a, b string) int { return slices.Index(wanted, a) - slices.Index(wanted, b) })
	return got
}

func TestChosenSeries(t *testing.T) {
	c, err := choose("", "latency,start")
	require.NoError(t, err)
	names := usedBy(c.rows())
	for _, s := range c.setups() {
		if s.name == "floor 2 batch" || s.name == "copy 2 batch" { // of the check
			continue
		}
		assert.Contains(t, s.series, seriesLatency, s.name)
	}
	assert.True(t, names["daemon echo beside a flow"])
	assert.True(t, c.single(keyStart))
	assert.False(t, c.single(keyIdle))
	assert.False(t, wantsCalls(c))

	all, err := choose("", "")
	require.NoError(t, err)
	assert.Len(t, all.rows(), len(rows()))
	assert.Len(t, all.setups(), len(setups()))
	assert.True(t, all.single(keyIdle) && wantsCalls(all))

	both, err := choose("old8", "sizes")
	require.NoError(t, err)
	assert.True(t, slices.ContainsFunc(both.rows(), func(r row) bool { return r.key == "small" }), "with its series")
	assert.True(t, slices.ContainsFunc(both.rows(), func(r row) bool { return r.key == "old8" }), "by its key")
}

func TestDecided(t *testing.T) {
	var got []string
	for _, r := range (choice{Only: []string{"pairs2"}}).decided([]row{{key: "a"}, {key: "b", target: 1}, {key: "c", most: 1}, {key: "pairs2"}}) {
		got = append(got, r.key)
	}
	assert.Equal(t, []string{"b", "c", "pairs2"}, got)
}

// Curves are measured in rounds of both directions.
func TestWithCurves(t *testing.T) {
	var in []int
	for round := range 9 {
		if withCurves(round) {
			in = append(in, round)
		}
	}
	assert.Equal(t, []int{0, 3, 4, 7, 8}, in)
}
