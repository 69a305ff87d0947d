// SPDX-License-Identifier: Apache-2.0

package figures

// noisy is how far the best of the rounds may be from their median. Beyond it the neighbours were measured, not the program.
const noisy = 1.5

// A Ratio compares two set-ups of one run.
type Ratio struct {
	Subject, Base Value
	Ratio         float64
	ByCPU         bool // the CPU time per frame decided, since the rates varied too much
}

// Compare is the ratio of a metric of two groups. It is not measured if either has it not.
func Compare(m Metric, subject, base Group) (r Ratio, measured bool) {
	s, ok1 := m.Of(subject)
	b, ok2 := m.Of(base)
	if !ok1 || !ok2 || b.Value == 0 {
		return Ratio{}, false
	}
	return Ratio{Subject: s, Base: b, Ratio: s.Value / b.Value}, true
}

// Decide compares two rates. Where the best round of either is further from its median than the neighbours explain, the CPU time
// per frame is compared in its place, the other way round, so that more is better with both.
func Decide(m Metric, subject, base Group) (r Ratio, measured bool) {
	r, measured = Compare(m, subject, base)
	if !measured || m.choice != highest || !(r.Subject.wide() || r.Base.wide()) {
		return r, measured
	}
	cost := CPU
	if m.Unit == Gbit.Unit {
		cost = CPUGB
	}
	c, ok := Compare(cost, subject, base)
	if !ok || c.Ratio == 0 {
		return r, true
	}
	return Ratio{Subject: c.Subject, Base: c.Base, Ratio: 1 / c.Ratio, ByCPU: true}, true
}

// wide tells whether the best round is far from the median.
func (v Value) wide() bool { return v.Value > noisy*v.Median || v.Median > noisy*v.Value }
