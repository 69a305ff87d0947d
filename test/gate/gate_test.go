// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slotsOf are so many slots of ns each.
func slotsOf(n int, ns float64) side { return slices.Repeat(side{ns}, n) }

func TestLow(t *testing.T) {
	busy := slotsOf(30, 900)
	for name, tt := range map[string]struct {
		s    side
		want float64
	}{
		"all alike":                  {slotsOf(minSlots, 250), 250},
		"one that was paid for late": {append(slotsOf(40, 250), 10), 250},
		"a busy machine":             {slices.Concat(busy, slotsOf(3, 260)), 260},
		"a very busy machine":        {busy, 900},
	} {
		t.Run(name, func(t *testing.T) { assert.InDelta(t, tt.want, tt.s.low(), 0.1) })
	}
}

func TestVerdicts(t *testing.T) {
	const base = 1.1 // fails above 1.375
	for name, tt := range map[string]struct {
		floor, daemon, slow side
		passes, detects     bool
	}{
		"as it was":         {slotsOf(20, 250), slotsOf(20, 275), slotsOf(20, 390), true, true},
		"a bit slower":      {slotsOf(20, 250), slotsOf(20, 340), slotsOf(20, 500), true, true},
		"much slower":       {slotsOf(20, 250), slotsOf(20, 350), slotsOf(20, 500), false, true},
		"faster":            {slotsOf(20, 250), slotsOf(20, 150), slotsOf(20, 300), true, true},
		"the gate is blind": {slotsOf(20, 250), slotsOf(20, 275), slotsOf(20, 340), true, false},
		"too few of ours":   {slotsOf(20, 250), slotsOf(2, 275), slotsOf(20, 390), false, false},
		"too few of C":      {slotsOf(2, 250), slotsOf(20, 275), slotsOf(20, 390), false, false},
		"nothing":           {nil, nil, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			ta := tally{row: row{key: "stream", text: "x", proven: true}, floor: tt.floor, daemon: tt.daemon, slow: tt.slow}
			assert.Equal(t, tt.passes, ta.passes(base))
			assert.Equal(t, tt.detects, ta.detects())

			g := gate{base: baseline{Ratios: map[string]float64{"stream": base}}, tallies: []*tally{&ta}}
			open := g.open(g.tallies)
			assert.Equal(t, tt.passes && tt.detects, len(open) == 0, "measured again unless all is well")
			assert.Equal(t, tt.passes, !strings.Contains(ta.describe(base), "FAILED") && ta.judged())
			assert.Equal(t, tt.passes && tt.detects, len(g.failure(&ta)) == 0)
		})
	}
}

// TestOverload: where not even the C program gets enough through, nothing is said about the daemon, but in the row that proves the gate.
func TestOverload(t *testing.T) {
	for name, tt := range map[string]struct {
		floor, daemon side
		proven        bool
		errs          int
	}{
		"both starve":             {slotsOf(3, 250), slotsOf(3, 250), false, 0},
		"the daemon alone":        {slotsOf(30, 250), slotsOf(3, 250), false, 1},
		"both, in the proven row": {slotsOf(3, 250), slotsOf(3, 250), true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ta := tally{row: row{key: "stream", proven: tt.proven}, floor: tt.floor, daemon: tt.daemon}
			g := gate{base: baseline{Ratios: map[string]float64{"stream": 1}}}
			assert.Len(t, g.failure(&ta), tt.errs)
		})
	}
}

// TestCrowded: on a crowded machine more is allowed where frames cost wake-ups, and only there.
func TestCrowded(t *testing.T) {
	for name, tt := range map[string]struct {
		crowded, wakes bool
		daemon         float64 // the C program takes 100 ns, the baseline is 1
		passes         bool
	}{
		"left alone":           {false, true, 126, false},
		"crowded":              {true, true, 149, true},
		"crowded, and slow":    {true, true, 151, false},
		"crowded, bytes":       {true, false, 126, false},
		"crowded, bytes, fine": {true, false, 124, true},
	} {
		t.Run(name, func(t *testing.T) {
			ta := tally{row: row{wakes: tt.wakes}, crowded: tt.crowded, floor: slotsOf(20, 100), daemon: slotsOf(20, tt.daemon)}
			assert.Equal(t, tt.passes, ta.passes(1))
		})
	}
}

func TestBaselines(t *testing.T) {
	b, err := readBaseline(baselineJSON)
	require.NoError(t, err)
	assert.ElementsMatch(t, keys(), slices.Collect(maps.Keys(b.Ratios)), "a baseline for each row, and no other")
	assert.Equal(t, renewCommand, b.Renew)
	for what, v := range map[string]string{"date": b.Date, "machine": b.Machine, "commit": b.Commit} {
		assert.NotEmpty(t, v, what)
	}

	path := filepath.Join(t.TempDir(), "baseline.json")
	require.NoError(t, b.write(path))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	again, err := readBaseline(data)
	require.NoError(t, err)
	assert.Equal(t, b, again)

	_, err = readBaseline([]byte(`{"ratios":`))
	assert.ErrorContains(t, err, baselineFile)
	_, err = readBaseline([]byte(`{"ratios":{"stream":1}}`))
	assert.ErrorContains(t, err, "no ratio of row")
	assert.ErrorContains(t, b.write(filepath.Join(path, "x")), "write baselines")
}

func TestParse(t *testing.T) {
	p, err := parse([]string{"-only", "stream,passed", "-rounds", "2"})
	require.NoError(t, err)
	assert.Equal(t, []string{"stream", "passed"}, p.only)
	for _, tt := range []struct{ args, want string }{
		{"-only nothing", "unknown row"},
		{"-renew -only stream", "leave out -only"},
		{"-rounds 0", "below 1"},
		{"more", "unexpected argument"},
	} {
		_, err := parse(strings.Fields(tt.args))
		assert.ErrorContains(t, err, tt.want, tt.args)
	}
	assert.ErrorContains(t, run(t.Context(), params{daemon: "/nowhere"}), "make build")
}

// TestSides: the slow daemon is measured where it has to be found out, and the C programs are the others' counterparts.
func TestSides(t *testing.T) {
	proven := 0
	for _, r := range rows {
		ta := tally{row: r}
		assert.Same(t, &ta.floor, ta.side(r.floor))
		assert.Same(t, &ta.daemon, ta.side(r.daemon))
		assert.Equal(t, r.daemon == rounds.DaemonVmnet, r.floor == rounds.VmnetC, r.key)
		if r.proven {
			proven++
			assert.Equal(t, rounds.Daemon, r.daemon, "the slow one is a daemon of this kind")
			assert.Same(t, &ta.slow, ta.side(slowDaemon))
			assert.Contains(t, ta.sides(), slowDaemon)
		}
	}
	assert.Equal(t, 1, proven)
}

// TestFindsGarbage: a daemon that allocates eight bytes for a frame is found out.
func TestFindsGarbage(t *testing.T) {
	leaky := rig.Kind{
		Name:    "daemon-leaky",
		Command: rig.Usernet(func(r *rig.Rig) string { return filepath.Join(r.Dir(), "leaky", "socket_vmnet2") }),
	}
	self, err := os.Executable() // is never started
	require.NoError(t, err)
	r := rig.ForTest(t, rig.Options{Daemon: self, Kinds: append(kinds(), leaky)})
	require.NoError(t, r.BuildChanged(t.Context(), filepath.Join(r.Dir(), "leaky", "socket_vmnet2"), "cmd/socket_vmnet2", rig.Change{
		File: slowness.File, Old: slowness.Old,
		New: "var wasted []byte\n\nfunc (p *Port) Send(b frame.Batch) {\n\tfor range b.Len() {\n\t\twasted = make([]byte, 8)\n\t}\n",
	}))
	const frames = 300_000
	g := gate{rig: r}
	l := rig.Load{Clients: 2, Pairs: 1, Batch: rig.BatchFrames, Frames: frames, Warm: warmTime, Time: warmTime}
	count, err := g.collections(t.Context(), leaky.Name, l)
	require.NoError(t, err)
	assert.Positive(t, count)
}
