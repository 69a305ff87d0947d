// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// mbits is a transfer's speed in Mbit/s.
func mbits(r rounds.Round) float64 { return float64(r.Bytes) * 8 / r.Seconds / 1e6 }

// cpuPerGB is the relay's CPU time in seconds for 10^9 bytes of payload.
func cpuPerGB(r rounds.Round) float64 { return r.CPUSeconds / float64(r.Bytes) * 1e9 }

// median of values, of which there is at least one.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// bySetup are the rounds of each set-up, in the order of the first round.
func bySetup(f rounds.File) (names []string, of map[string][]rounds.Round) {
	of = map[string][]rounds.Round{}
	for _, r := range f.Rounds {
		if of[r.Setup] == nil {
			names = append(names, r.Setup)
		}
		of[r.Setup] = append(of[r.Setup], r)
	}
	return names, of
}

func each(all []rounds.Round, value func(rounds.Round) float64) []float64 {
	values := make([]float64, 0, len(all))
	for _, r := range all {
		values = append(values, value(r))
	}
	return values
}

// Table shows the median and the best of each set-up.
func Table(f rounds.File) string {
	var b strings.Builder
	names, of := bySetup(f)
	fmt.Fprintf(&b, "%-62s %10s %10s %12s %12s %8s\n", "set-up", "Mbit/s", "best", "CPU s/GB", "switches/GB", "retr.")
	for _, name := range names {
		all := of[name]
		switches := func(r rounds.Round) float64 { return float64(r.Voluntary+r.Involuntary) / float64(r.Bytes) * 1e9 }
		fmt.Fprintf(&b, "%-62s %10.0f %10.0f %12.3f %12.0f %8.0f\n", name, median(each(all, mbits)), slices.Max(each(all, mbits)),
			median(each(all, cpuPerGB)), median(each(all, switches)),
			median(each(all, func(r rounds.Round) float64 { return float64(r.Retransmits) })))
	}
	return b.String()
}
