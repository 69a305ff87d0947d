// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/cbuild"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRig is rig.New for a test.
func newRig(t *testing.T, o rig.Options) *rig.Rig {
	t.Helper()
	r, err := rig.New(t.Context(), o)
	cbuild.Must(t, "", err)
	t.Cleanup(r.Close)
	return r
}

// TestJudge has what is at a limit, or did not arrive. TestPage has the verdicts on all rows that were measured.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name          string
		metric        string
		target        float64
		subject, base []float64
		ratio         float64
		word          string
	}{
		{"nothing arrived", rate, 0.85, []float64{0, 0}, []float64{100, 50}, 0, "**missed**"},
		{"nothing arrived for CPU time", cpu, 1.4, []float64{0, 0}, []float64{90, 100}, 0, "**missed**"},
		{"only shown", rate, 0, []float64{1}, []float64{100}, 0.01, ""},
		{"a figure too large", startTime, 50, []float64{80, 51}, nil, 0, "**missed**"},
		{"one wake-up", wakes, nothing, []float64{0.1}, nil, 0, "**missed**"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := figure{Metric: tt.metric, Target: tt.target, Subject: side{Values: tt.subject}}
			if tt.base != nil {
				f.Base = side{Setup: "floor", Values: tt.base}
			}
			v := f.judge()
			assert.InDelta(t, tt.ratio, v.ratio, 1e-9)
			assert.Equal(t, tt.word, v.word)
		})
	}
}

// TestMeasure has what stands for all kinds of rows measured once, written to a file and made into a page.
func TestMeasure(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	const short = 100 * time.Millisecond
	r := newRig(t, rig.Options{Daemon: self, Warm: short, Time: short})
	require.NoError(t, rig.BuildSimulated(t.Context(), r))
	// The daemon on the embedded network is the program that can load the simulator, so that only one has to be built.
	r = newRig(t, rig.Options{Daemon: r.DaemonSim(), Warm: short, Time: short})
	b := &bench{Rig: r, time: short, rounds: 1, rows: chosen(rows(), []string{
		"large", "old8-single", "rtt-load", "to-connected", "vmnet", "start", "mem-busy", "idle-dgram",
	})}
	rep := report{Machine: lab.ThisMachine(t.Context()), Command: "make bench", Rounds: 1}
	rep.Figures, err = b.measure(t.Context())
	require.NoError(t, err)
	require.Len(t, rep.Figures, len(b.rows))
	starved := 0 // on a busy machine one got no frame through in its 100 ms
	for _, f := range rep.Figures {
		v := f.judge()
		if f.Base.Setup != "" && (v.base == 0 || v.subject == 0) {
			starved++
			continue
		}
		if f.Metric == wakes {
			assert.LessOrEqual(t, v.subject, 16*5.0, "%s: polling 5 times a second makes more", f.Key)
			continue
		}
		assert.Positive(t, v.subject, f.Key)
		assert.Equal(t, f.Base.Setup != "", v.ratio > 0, f.Key)
	}
	assert.LessOrEqual(t, starved, 1)

	path := filepath.Join(t.TempDir(), "new", "figures.json")
	for range keptRuns + 1 {
		require.NoError(t, rep.write(path))
	}
	again, err := readReports(path)
	require.NoError(t, err)
	assert.Equal(t, slices.Repeat([]report{rep}, keptRuns), again)
	var page bytes.Buffer
	require.NoError(t, printPage(&page, again))
	for _, r := range b.rows {
		assert.Contains(t, page.String(), "\n| "+r.text+" | ")
	}
}

// TestPage: the page, and the chart of README, are what the stored figures say.
func TestPage(t *testing.T) {
	const stored = "../../docs/performance/figures"
	runs, err := readReports(stored + ".json")
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, printPage(&page, runs))
	rep := runs[len(runs)-1]
	want, err := os.ReadFile(stored + ".md")
	require.NoError(t, err)
	assert.Equal(t, string(want), page.String(), "make it again: go run ./test/bench -page docs/performance/figures.json")
	assert.Equal(t, keys(rows()), keys(rep.Figures), "figures of all rows, and of no others: make bench")

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "\n"+rep.chart()+"```\n", "write this into README's chart, and its text")

	bad := filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(bad, []byte(`[{"figures":[{"metric":"colour"}]}]`), 0o600))
	assert.ErrorContains(t, run(context.Background(), params{page: bad}), `nothing is known of "colour"`)
}

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

func TestDelayed(t *testing.T) {
	require.NoError(t, delayed(pingLimit*50_000, 50_000))
	require.ErrorContains(t, delayed(pingLimit*50_000+1, 50_000), "p99 of 2000 µs, with the C program 50")
	require.Error(t, delayed(0, 50_000), "nothing came back")
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
	r := newRig(t, rig.Options{Daemon: self, Kinds: []rig.Kind{{Name: "leaky", Command: rig.Usernet(leaky)}}})
	require.NoError(t, r.BuildChanged(t.Context(), program, "cmd/socket_vmnet2", rig.Change{
		File: rig.Slowness.File, Old: rig.Slowness.Old,
		New: "var wasted []byte\n\nfunc (p *Port) Send(b frame.Batch) {\n\tfor range b.Len() {\n\t\twasted = make([]byte, 8)\n\t}\n",
	}))
	g := gate{rig: r}
	count, err := g.collections(t.Context(), "leaky", gateRows()[0].load())
	require.NoError(t, err)
	assert.Positive(t, count)
}
