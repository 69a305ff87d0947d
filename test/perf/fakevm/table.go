// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// Table is a text with each set-up's median and best round, and the targets.
func Table(f rounds.File) string {
	var b strings.Builder
	names, of := bySetup(f)
	const transfers, trips = "%-62s %9s %9s %9s %12s %7s\n", "%-62s %9s %9s %9s %9s\n"
	for i, name := range names {
		all := of[name]
		if all[0].Trips > 0 {
			if i == 0 || of[names[i-1]][0].Trips == 0 {
				fmt.Fprintf(&b, trips, "round trips", "p50 us", "best", "p99 us", "best")
			}
			p50, p99 := each(all, micro50), each(all, micro99)
			fmt.Fprintf(&b, trips, name, number(median(p50)), number(slices.Min(p50)), number(median(p99)), number(slices.Min(p99)))
			continue
		}
		if i == 0 || of[names[i-1]][0].Trips > 0 {
			fmt.Fprintf(&b, transfers, "transfers", "Mbit/s", "best", "CPU s/GB", "switches/GB", "retr.")
		}
		speed, retransmits := each(all, mbits), each(all, func(r rounds.Round) float64 { return float64(r.Retransmits) })
		fmt.Fprintf(&b, transfers, name, number(median(speed)), number(slices.Max(speed)), number(median(each(all, cpuPerGB))),
			number(median(each(all, switchesPerGB))), number(median(retransmits)))
	}
	b.WriteString(verdictTable(judge(f)))
	return b.String()
}

func verdictTable(verdicts []verdict) string {
	if len(verdicts) == 0 {
		return ""
	}
	var b strings.Builder
	const line = "%-62s %9s %9s %9s %s\n"
	fmt.Fprintf(&b, line, "ratios", "best", "by CPU", "target", "")
	for _, v := range verdicts {
		target := ""
		if v.target > 0 {
			target = ">= " + number(v.target)
		}
		fmt.Fprintf(&b, line, v.text, number(v.ratio), number(v.cpuRatio), target, v.outcome())
	}
	return b.String()
}

// number has three digits or more; 0 is nothing.
func number(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
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

// median is the middle value, the lower of two.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// mbits is a transfer's speed in Mbit/s of payload.
func mbits(r rounds.Round) float64 { return quotient(float64(r.Bytes)*8/1e6, r.Seconds) }

// cpuPerGB is the relay's CPU time in seconds for 10^9 bytes of payload.
func cpuPerGB(r rounds.Round) float64 { return quotient(r.CPUSeconds, float64(r.Bytes)/1e9) }

func switchesPerGB(r rounds.Round) float64 {
	return quotient(float64(r.Voluntary+r.Involuntary), float64(r.Bytes)/1e9)
}

func micro50(r rounds.Round) float64 { return float64(r.P50) / 1e3 }
func micro99(r rounds.Round) float64 { return float64(r.P99) / 1e3 }

// quotient is a/b, or 0 where b is 0 and there is nothing to compare.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
