// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	r := rig.ForTest(t, rig.Options{Daemon: self, Warm: short, Time: short})
	require.NoError(t, rig.BuildSimulated(t.Context(), r))
	// The daemon on the embedded network is the program that can load the simulator, so that only one has to be built.
	r = rig.ForTest(t, rig.Options{Daemon: r.DaemonSim(), Warm: short, Time: short})
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
	require.NoError(t, rep.write(path))
	again, err := readReport(path)
	require.NoError(t, err)
	assert.Equal(t, rep, again)
	var page bytes.Buffer
	require.NoError(t, again.print(&page))
	for _, r := range b.rows {
		assert.Contains(t, page.String(), "\n| "+r.text+" | ")
	}
}

// TestPage: the page, and the chart of README, are what the stored figures say.
func TestPage(t *testing.T) {
	const stored = "../../docs/performance/figures"
	rep, err := readReport(stored + ".json")
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, rep.print(&page))
	want, err := os.ReadFile(stored + ".md")
	require.NoError(t, err)
	assert.Equal(t, string(want), page.String(), "make it again: go run ./test/bench -page docs/performance/figures.json")
	assert.Len(t, rep.Figures, len(rows()), "figures of all rows, and of no others: make bench")

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "\n"+rep.chart()+"```\n", "write this into README's chart, and its text")

	bad := filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(bad, []byte(`{"figures":[{"metric":"colour"}]}`), 0o600))
	assert.ErrorContains(t, run(context.Background(), params{page: bad}), `nothing is known of "colour"`)
}
