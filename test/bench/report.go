// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/socket-vmnet2/socket_vmnet2/test/bench/rig"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// keptRuns is how many runs a file has: those of one page.
const keptRuns = 2

// A report is all there is to know of a run. The page is made from some, the last of which is the newest.
type report struct {
	Machine lab.Machine `json:"machine"`
	Command string      `json:"command"`
	Rounds  int         `json:"rounds"`
	Time    string      `json:"time"` // of a measurement
	Figures []figure    `json:"figures"`
}

// A figure is what was measured for a row.
type figure struct {
	Key     string  `json:"key"`
	Section string  `json:"section"`
	Text    string  `json:"text"`
	Metric  string  `json:"metric"`
	Target  float64 `json:"target,omitempty"` // of the ratio, or of the figure itself where there is none; 0: only shown
	Subject side    `json:"subject"`
	Base    side    `json:"base,omitzero"`
}

func (f figure) name() string { return f.Key }

// A side is one set-up's rounds.
type side struct {
	Setup  string    `json:"setup"`
	Values []float64 `json:"values"`
	CPU    []float64 `json:"cpu_ns"` // of the relay for a frame or round trip
}

func (r row) figure(results map[string][]rig.Result) figure {
	of := func(s setup) (one side) {
		one.Setup = s.name
		for _, res := range results[s.name] {
			one.Values, one.CPU = append(one.Values, digits(metrics[r.metric].of(res))), append(one.CPU, digits(res.CPU()))
		}
		return one
	}
	return figure{r.key, r.section, r.text, r.metric, r.target, of(r.subject), of(r.base)}
}

// digits is x with as many digits as mean anything.
func digits(x float64) float64 {
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // it is a number
	return x
}

// The metrics.
const (
	rate      = "kf/s"
	cpu       = "CPU ns a frame"
	loss      = "% lost"
	p50       = "µs, p50"
	p99       = "µs, p99"
	gbit      = "Gbit/s"
	startTime = "ms"
	anonymous = "MB"
	resident  = "MB resident"
	wakes     = "context switches a second"
	restCPU   = "ms of CPU time a second"
)

// A metric is a figure of a measurement, and how rounds are summed up.
type metric struct {
	of     func(rig.Result) float64
	unit   string
	most   bool // more is better
	median bool // of the rounds stands for all, in place of the best
}

var metrics = map[string]metric{
	rate:      {of: func(r rig.Result) float64 { return r.Rate() / 1e3 }, unit: "kf/s", most: true},
	cpu:       {of: rig.Result.CPU, unit: "ns CPU", median: true},
	loss:      {of: func(r rig.Result) float64 { return float64(r.Lost) * 100 / float64(r.Lost+r.Received) }, unit: "%"},
	p50:       {of: func(r rig.Result) float64 { return float64(r.RTTP50NS) / 1e3 }, unit: "µs p50"},
	p99:       {of: func(r rig.Result) float64 { return float64(r.RTTP99NS) / 1e3 }, unit: "µs p99"},
	gbit:      {of: rig.Result.Gbit, unit: "Gbit/s", most: true},
	startTime: {of: func(r rig.Result) float64 { return float64(r.WallNS) / 1e6 }, unit: "ms"},
	anonymous: {of: func(r rig.Result) float64 { return float64(r.AnonymousKiB) * 1024 / 1e6 }, unit: "MB", median: true},
	resident:  {of: func(r rig.Result) float64 { return float64(r.ResidentKiB) * 1024 / 1e6 }, unit: "MB", median: true},
	wakes:     {of: func(r rig.Result) float64 { return float64(r.Switches) * 1e9 / float64(r.WallNS) }, unit: "switches/s", median: true},
	restCPU:   {of: func(r rig.Result) float64 { return float64(r.RelayCPUNS) * 1e3 / float64(r.WallNS) }, unit: "ms CPU/s", median: true},
}

// figure is what stands for the rounds.
func (m metric) figure(values []float64) float64 {
	switch {
	case len(values) == 0:
		return 0
	case m.median:
		return median(values)
	case m.most:
		return slices.Max(values)
	default:
		return slices.Min(values)
	}
}

// A verdict is what a figure says.
type verdict struct {
	subject, base float64
	ratio         float64   // 0 where there is nothing to compare with
	ratios        []float64 // of the rounds, one by one
	word          string    // met, missed, or nothing
}

// judge compares by the best rounds, or by the medians of CPU time, which neighbours change less.
func (f figure) judge() verdict {
	m := metrics[f.Metric]
	v := verdict{subject: m.figure(f.Subject.Values), base: m.figure(f.Base.Values)}
	decides := v.subject
	if f.Base.Setup != "" {
		v.ratio = quotient(v.subject, v.base)
		decides = v.ratio
		for i := range min(len(f.Subject.Values), len(f.Base.Values)) {
			v.ratios = append(v.ratios, quotient(f.Subject.Values[i], f.Base.Values[i]))
		}
	}
	met := decides <= f.Target
	if m.most {
		met = decides >= f.Target
	}
	switch {
	case f.Target == 0:
	case !met || f.Base.Setup != "" && v.ratio == 0:
		v.word = "**missed**"
	default:
		v.word = "met"
	}
	return v
}

// median is the middle value, the lower of two.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// write adds the report to those in a file, if that has a name.
func (r report) write(path string) error {
	if path == "" {
		return nil
	}
	runs, err := readReports(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	runs = append(runs, r)
	out, err := json.Marshal(runs[max(0, len(runs)-keptRuns):])
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	out = bytes.ReplaceAll(out, []byte(`{"key"`), []byte("\n"+`{"key"`)) // a line for each
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the directory for the figures: %w", err)
	}
	return os.WriteFile(path, append(out, '\n'), 0o644)
}

// readReports reads what write wrote.
func readReports(path string) (runs []report, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	if err := json.Unmarshal(text, &runs); err != nil {
		return nil, fmt.Errorf("read figures of %s: measure again: %w", path, err)
	}
	for _, r := range runs {
		for _, f := range r.Figures {
			if metrics[f.Metric].of == nil {
				return nil, fmt.Errorf("read figures of %s: nothing is known of %q: measure again", path, f.Metric)
			}
		}
	}
	return runs, nil
}
