// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
)

// slotsOf are so many slots of ns each.
func slotsOf(n int, ns float64) slotCosts { return slices.Repeat(slotCosts{ns}, n) }

// TestGateVerdicts: the baseline of all is 1.1, so that the daemon fails above 1.375, on a crowded machine above 1.65.
func TestGateVerdicts(t *testing.T) {
	const base = 1.1
	proven, wakes := gateRow{key: "stream", proven: true}, gateRow{key: "stream", wakes: true}
	for name, tt := range map[string]struct {
		row                 gateRow
		crowded             bool
		floor, daemon, slow slotCosts
		fails               string
	}{
		"as it was":                   {proven, false, slotsOf(20, 250), slotsOf(20, 275), slotsOf(20, 390), ""},
		"a bit slower":                {proven, false, slotsOf(20, 250), slotsOf(20, 340), slotsOf(20, 500), ""},
		"much slower":                 {proven, false, slotsOf(20, 250), slotsOf(20, 350), slotsOf(20, 500), "takes 1.40 times"},
		"faster":                      {proven, false, slotsOf(20, 250), slotsOf(20, 150), slotsOf(20, 300), ""},
		"the gate is blind":           {proven, false, slotsOf(20, 250), slotsOf(20, 275), slotsOf(20, 340), "the gate is blind"},
		"too few of ours":             {proven, false, slotsOf(20, 250), slotsOf(2, 275), slotsOf(20, 390), "too few frames"},
		"too few of C":                {proven, false, slotsOf(2, 250), slotsOf(20, 275), slotsOf(20, 390), "too few frames"},
		"both starve":                 {wakes, false, slotsOf(3, 250), slotsOf(3, 250), nil, ""},
		"the daemon alone starves":    {wakes, false, slotsOf(30, 250), slotsOf(3, 250), nil, "too few frames"},
		"crowded":                     {wakes, true, slotsOf(20, 100), slotsOf(20, 164), nil, ""},
		"crowded, and slow":           {wakes, true, slotsOf(20, 100), slotsOf(20, 166), nil, "takes 1.66 times"},
		"crowded, but about bytes":    {proven, true, slotsOf(20, 100), slotsOf(20, 138), slotsOf(20, 500), "takes 1.38 times"},
		"not crowded, about wake-ups": {wakes, false, slotsOf(20, 100), slotsOf(20, 138), nil, "takes 1.38 times"},
	} {
		t.Run(name, func(t *testing.T) {
			ta := &tally{row: tt.row, crowded: tt.crowded, floor: tt.floor, daemon: tt.daemon, slow: tt.slow}
			g := gate{base: baseline{Ratios: map[string]float64{"stream": base}}}
			judged := len(tt.floor) >= minSlots
			assert.Equal(t, tt.fails == "" && judged, len(g.open([]*tally{ta})) == 0, "measured again unless all is well")
			if tt.fails == "" {
				assert.NoError(t, ta.failure(base))
			} else {
				assert.ErrorContains(t, ta.failure(base), tt.fails)
			}
			assert.Contains(t, ta.describe(base), "stream")
		})
	}
}

func TestBaselines(t *testing.T) {
	b, err := readBaseline(baselineJSON)
	require.NoError(t, err)
	assert.ElementsMatch(t, keys(gateRows()), slices.Collect(maps.Keys(b.Ratios)), "a baseline for each row, and no other")
	_, err = readBaseline([]byte(`{"ratios":`))
	assert.ErrorContains(t, err, baselineFile)
	_, err = readBaseline([]byte(`{"ratios":{"stream":1}}`))
	assert.ErrorContains(t, err, "no ratio of row")
}

// TestFindsOut: a daemon that allocates eight bytes for a frame is found out. That one that takes longer is, each run of the gate shows.
func TestFindsOut(t *testing.T) {
	self, err := os.Executable() // is never started
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "leaky", "socket_vmnet2")
	leaky := func(*rig.Rig) string { return program }
	r := rig.ForTest(t, rig.Options{Daemon: self, Kinds: []rig.Kind{{Name: "leaky", Command: rig.Usernet(leaky)}}})
	require.NoError(t, r.BuildChanged(t.Context(), program, "cmd/socket_vmnet2", rig.Change{
		File: rig.Slowness.File, Old: rig.Slowness.Old,
		New: "var wasted []byte\n\nfunc (p *Port) Send(b frame.Batch) {\n\tfor range b.Len() {\n\t\twasted = make([]byte, 8)\n\t}\n",
	}))
	g := gate{rig: r}
	count, err := g.collections(t.Context(), "leaky", gateRows()[0].load())
	require.NoError(t, err)
	assert.Positive(t, count)
}
