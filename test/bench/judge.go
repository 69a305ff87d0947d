// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// noisy is the quotient of best and median from which on a busy machine is suspected and CPU time decides.
const noisy = 1.5

// A verdict is one line of the table.
type verdict struct {
	Key     string  `json:"key"`
	Text    string  `json:"text"`
	Subject float64 `json:"subject"` // frames/s, ns per round trip, or the figure itself
	Against string  `json:"against"` // the set-up it is compared with; empty: nothing
	Base    float64 `json:"base"`    // that one's figure
	Ratio   float64 `json:"ratio"`   // best / best, or best - best; 0 where there is nothing to compare with

	SubjectCPU float64 `json:"subject_cpu_ns"` // median per frame or round trip
	BaseCPU    float64 `json:"base_cpu_ns"`
	CPURatio   float64 `json:"cpu_ratio"` // the ratio that CPU time alone would give; 0: none, or not comparable

	Difference bool `json:"difference"` // both ratios are differences
	Cost       bool `json:"cost"`       // both ratios are of the time per frame, where less is better
	Failed     bool `json:"failed"`     // nothing arrived that could be compared

	ByCPU   bool    `json:"decided_by_cpu"`
	Target  float64 `json:"target"` // 0: only shown
	AtMost  bool    `json:"at_most"`
	Unit    string  `json:"unit"`
	Must    bool    `json:"must_hold"`
	Met     bool    `json:"met"`
	Remarks string  `json:"remarks,omitempty"`
}

// figure is what is compared with the target.
func (v verdict) figure() float64 {
	switch {
	case v.ByCPU:
		return v.CPURatio
	case v.Against != "":
		return v.Ratio
	default:
		return v.Subject
	}
}

// decide sets Met.
func (v verdict) decide() verdict {
	v.Met = v.Target == 0 && !v.AtMost || v.figure() >= v.Target
	if v.AtMost {
		v.Met = v.figure() <= v.Target
	}
	v.Met = v.Met && !v.Failed
	return v
}

func (v verdict) invalidates() bool { return v.Must && !v.Met }

// judge turns measurements into the verdicts of rows.
func judge(done []measurement, rows []row) []verdict {
	var all []verdict
	for _, r := range rows {
		all = append(all, compare(r, of(done, r.subject), of(done, r.base)))
	}
	return all
}

func of(done []measurement, name string) []measurement {
	return slices.DeleteFunc(slices.Clone(done), func(m measurement) bool { return m.Setup != name })
}

// compare decides by the best rounds, and by the median of the CPU time per frame where best and median of either side are
// far apart. A side that moved nothing has no CPU time per frame and is decided by its rate. A round trip is mostly waiting,
// which CPU time says nothing about, so there the best rounds decide in any case; a row may ask for CPU time.
func compare(r row, subject, base []measurement) verdict {
	s, b := summary(subject, r), summary(base, r)
	v := verdict{
		Key: r.key, Text: r.text, Subject: s.best, Against: r.base, Base: b.best, Ratio: quotient(s.best, b.best),
		Target: r.target, Must: r.mustHold, SubjectCPU: medianCPU(subject), BaseCPU: medianCPU(base), Unit: "frames/s",
	}
	v.Remarks = remarks(subject)
	switch {
	case r.latency:
		v.Unit, v.AtMost = "ns", r.target > 0
		v.Remarks = fmt.Sprintf("medians of the rounds: %.1f and %.1f us, %.2f", s.median/1e3, b.median/1e3, quotient(s.median, b.median))
	case r.pair > 0: // the relay's CPU time is for all pairs
		v.SubjectCPU, v.BaseCPU = 0, 0
	case r.most > 0:
		v.Ratio, v.CPURatio = quotient(b.best, s.best), quotient(v.SubjectCPU, v.BaseCPU)
		v.Target, v.AtMost, v.Cost, v.ByCPU = r.most, true, true, true
		v.Failed = v.CPURatio == 0
	default:
		v.CPURatio = quotient(v.BaseCPU, v.SubjectCPU)
		v.ByCPU = (s.far() || b.far() || r.cpu) && v.CPURatio > 0
	}
	return v.decide()
}

// A middle is the best and the median of a set-up's rounds: frames per second, or a quantile of round trips in ns.
type middle struct {
	best, median float64
}

// far tells of rates whether the median is far from the best.
func (m middle) far() bool { return m.median*noisy < m.best }

func summary(ms []measurement, r row) middle {
	values := make([]float64, len(ms))
	for i, m := range ms {
		switch {
		case r.latency && r.p99:
			values[i] = float64(m.RTTP99NS)
		case r.latency:
			values[i] = float64(m.RTTP50NS)
		default:
			values[i] = m.Rate(r.pair)
		}
	}
	if r.latency {
		return middle{slices.Min(values), median(values)}
	}
	return middle{slices.Max(values), median(values)}
}

func medianCPU(ms []measurement) float64 {
	values := make([]float64, len(ms))
	for i, m := range ms {
		values[i] = m.CPU
	}
	return median(values)
}

// median is the middle value, the lower of two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
