// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	for _, r := range rows() {
		assert.True(t, names[r.subject], "row %q: set-up %q", r.key, r.subject)
		assert.True(t, names[r.base], "row %q: set-up %q", r.key, r.base)
		used[r.subject], used[r.base] = true, true
	}
	assert.Len(t, used, len(names), "every set-up is in some row")
}

func TestChosenRowsCheckTheFloor(t *testing.T) {
	var got []string
	for _, r := range chosenRows([]string{"pair", "idle62"}) {
		got = append(got, r.key)
	}
	assert.Equal(t, []string{"floor", "pair", "idle62"}, got)
	assert.Len(t, chosenRows([]string{"idle62"}), 1)
	assert.ErrorContains(t, checkKeys([]string{"pair", "fast"}), `unknown row "fast"`)
}
