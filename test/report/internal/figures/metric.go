// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// How the rounds of a set-up become one figure.
type choice int

const (
	highest choice = iota // the best of rates: quiet moments compare programs, the others compare neighbours
	lowest                // the best of times
	middle                // the median: of CPU time, which neighbours change little
)

// A Metric is what a round says, in a unit.
type Metric struct {
	Name, Unit string
	choice     choice
	of         func(r rounds.Round) (value float64, measured bool)
}

// A Value is a metric over the rounds of a set-up.
type Value struct {
	Value    float64 // the best or the median, as the metric has it
	Median   float64
	Min, Max float64
	N        int // rounds
}

// Of is the metric of a group. It is not measured if no round has it. Where some have and others have not, a rate of those is 0:
// they stood still; times leave them out.
func (m Metric) Of(g Group) (v Value, measured bool) {
	var all []float64
	for _, r := range g {
		x, ok := m.of(r)
		measured = measured || ok
		if ok || m.choice == highest {
			all = append(all, x)
		}
	}
	if !measured {
		return Value{}, false
	}
	slices.Sort(all)
	v = Value{Median: median(all), Min: all[0], Max: all[len(all)-1], N: len(all)}
	v.Value = [...]float64{highest: v.Max, lowest: v.Min, middle: v.Median}[m.choice]
	return v, true
}

// median of what is sorted. Of an even number it is the mean of the two in the middle.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// How tells how the rounds become one figure, for captions.
func (m Metric) How() string {
	return [...]string{highest: "best", lowest: "best", middle: "median"}[m.choice]
}

// per divides, and is not measured where either side is 0.
func per(a, b float64) (float64, bool) {
	if a == 0 || b == 0 {
		return 0, false
	}
	return a / b, true
}

func frames(r rounds.Round) float64   { return float64(r.Frames) }
func bits(r rounds.Round) float64     { return 8 * float64(r.Bytes) }
func switches(r rounds.Round) float64 { return float64(r.Voluntary + r.Involuntary) }

// micro is a metric of nanoseconds, shown in microseconds. Its best is the lowest.
func micro(name string, of func(r rounds.Round) int64) Metric {
	return Metric{name, "µs", lowest, func(r rounds.Round) (float64, bool) { return per(float64(of(r)), 1e3) }}
}

// The metrics. Bytes of frames have their Ethernet header; of TCP they are the payload.
var (
	Rate = Metric{"rate", "kf/s", highest, func(r rounds.Round) (float64, bool) { return per(frames(r), 1e3*r.Seconds) }}
	// Flow is the rate where a relay may stand still: then 0 is what was measured.
	Flow  = Metric{"rate", "kf/s", highest, func(r rounds.Round) (float64, bool) { return frames(r) / (1e3 * r.Seconds), true }}
	Gbit  = Metric{"rate", "Gbit/s", highest, func(r rounds.Round) (float64, bool) { return per(bits(r), 1e9*r.Seconds) }}
	CPU   = Metric{"CPU", "ns/frame", middle, func(r rounds.Round) (float64, bool) { return per(1e9*r.CPUSeconds, frames(r)) }}
	CPUGB = Metric{"CPU", "s/GB", middle, func(r rounds.Round) (float64, bool) { return per(8e9*r.CPUSeconds, bits(r)) }}
	// MbitPercent is how far one percent of one processor goes.
	MbitPercent = Metric{"work", "Mbit/s per % CPU", middle, func(r rounds.Round) (float64, bool) {
		return per(bits(r)/1e6, 100*r.CPUSeconds)
	}}
	// Switches are context switches of the relay's threads, those that were made to and those that waited.
	Switches = Metric{"switches", "per 1000 frames", middle, func(r rounds.Round) (float64, bool) { return per(1e3*switches(r), frames(r)) }}
	// Wakeups are those that waited.
	Wakeups     = Metric{"wake-ups", "per 1000 frames", middle, func(r rounds.Round) (float64, bool) { return per(1e3*float64(r.Voluntary), frames(r)) }}
	Retransmits = Metric{"retransmits", "per round", middle, func(r rounds.Round) (float64, bool) {
		return float64(r.Retransmits), r.Bytes > 0
	}}
	Drops = Metric{"drops", "per round", middle, func(r rounds.Round) (float64, bool) { return float64(r.Drops), r.Frames > 0 }}

	P50  = micro("p50", func(r rounds.Round) int64 { return r.P50 })
	P99  = micro("p99", func(r rounds.Round) int64 { return r.P99 })
	P999 = micro("p999", func(r rounds.Round) int64 { return r.P999 })

	// Memory is anonymous memory. MB are 1,000,000 bytes.
	Memory = Metric{"memory", "MB", middle, func(r rounds.Round) (float64, bool) { return per(1024*float64(r.MemoryKiB), 1e6) }}
	// Start is the time from the start of the process until a client is served.
	Start = Metric{"start", "ms", lowest, func(r rounds.Round) (float64, bool) { return 1e3 * r.Seconds, true }}
	// IdleCPU and IdleSwitches are of a daemon that has nothing to do: 0 is what they should be.
	IdleCPU      = Metric{"CPU", "ms/s", middle, func(r rounds.Round) (float64, bool) { return 1e3 * r.CPUSeconds / r.Seconds, true }}
	IdleSwitches = Metric{"wake-ups", "per second", middle, func(r rounds.Round) (float64, bool) { return switches(r) / r.Seconds, true }}
)

// Metrics are those that a template may name.
var Metrics = map[string]Metric{
	"rate": Rate, "flow": Flow, "gbit": Gbit, "cpu": CPU, "cpu-gb": CPUGB, "mbit-percent": MbitPercent, "switches": Switches, "wake-ups": Wakeups,
	"retransmits": Retransmits, "drops": Drops, "p50": P50, "p99": P99, "p999": P999, "memory": Memory, "start": Start,
	"idle-cpu": IdleCPU, "idle-switches": IdleSwitches,
}
