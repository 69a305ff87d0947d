// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// printPage writes the page of runs: the figures of the last one, and beside them what the others say.
func printPage(w io.Writer, runs []report) error {
	r, others := runs[len(runs)-1], runs[:len(runs)-1]
	var b strings.Builder
	b.WriteString("<!-- made by test/bench: make bench. Do not edit. -->\n\n# Figures\n\nNone of this was measured on a Mac; vmnet is simulated. " +
		"[What is measured, and why a target is missed](../performance.md).\n\n")
	b.WriteString("| run | CPU | cores | system | commit | date | load average |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for i, r := range runs {
		m := r.Machine
		fmt.Fprintf(&b, "| %d | %s | %d | %s, %s, %s | `%s` | %s | %s before, %s after |\n",
			i+1, m.CPU, m.Cores, m.Kernel, m.Go, m.CC, m.Commit, m.Date.Format("2006-01-02 15:04 MST"), m.LoadBegin, m.LoadEnd)
	}
	fmt.Fprintf(&b, "\n```sh\n%s\n```\n\n", r.Command)
	fmt.Fprintf(&b, `The best of %d rounds of %s stands for all of them, or the median for CPU time and memory; in brackets are the least and the most. A ratio's
brackets are those of the rounds one by one. Frames are of 1514 bytes where nothing else is said; "CPU" is the process's time for a frame
or round trip, ours and the other's. The figures are those of run %d; of the others stand the ratios, or the figures of rows without one. A target
is met when all runs that have the row meet it.
`, r.Rounds, r.Time, len(runs))
	var columns strings.Builder
	for i := range others {
		fmt.Fprintf(&columns, " run %d |", i+1)
	}
	section := ""
	for _, f := range r.Figures {
		if f.Section != section {
			section = f.Section
			fmt.Fprintf(&b, "\n## %s\n\n| | socket_vmnet2 | beside | | ratio |%s target | | CPU, ns |\n| %s |\n",
				section, columns.String(), strings.Join(slices.Repeat([]string{"---"}, 8+len(others)), " | "))
		}
		fmt.Fprintln(&b, f.line(others))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line is the figure's line of its table, with what others say of the same row.
func (f figure) line(others []report) string {
	m, v := metrics[f.Metric], f.judge()
	words, beside := []string{v.word}, []string{}
	for _, r := range others {
		cell := ""
		if i := slices.IndexFunc(r.Figures, func(other figure) bool { return other.Key == f.Key }); i >= 0 {
			other := r.Figures[i].judge()
			words, cell = append(words, other.word), short(cmp.Or(other.ratio, other.subject))
		}
		beside = append(beside, cell)
	}
	word := slices.Max(words) // "met" is after "**missed**"
	if missed := slices.Min(words); missed != word {
		word = missed + " in some"
	}
	ours, _, _ := strings.Cut(f.Subject.Setup, ",")
	cells := []string{f.Text, amount(v.subject, f.Subject.Values, m.unit), "", "", "", f.wanted(), word, ""}
	if f.Base.Setup != "" {
		base, _, _ := strings.Cut(f.Base.Setup, ",")
		if base == ours {
			base = "a pair alone"
		}
		cells[2], cells[3], cells[4] = cmp.Or(labels[base], base), amount(v.base, f.Base.Values, m.unit), amount(v.ratio, v.ratios, "")
		if f.Metric != cpu {
			cells[7] = short(median(f.Subject.CPU)) + " / " + short(median(f.Base.CPU))
		}
	}
	return "| " + strings.Join(slices.Insert(cells, 5, beside...), " | ") + " |"
}

// labels are what the page calls the other programs.
var labels = map[string]string{"floor": "floor", "old": "old way", "vmnet-c": "C", "daemon": "for Linux"}

// wanted is the target.
func (f figure) wanted() string {
	m := metrics[f.Metric]
	switch {
	case f.Target == 0:
		return ""
	case f.Target == nothing:
		return "none"
	case m.most:
		return fmt.Sprintf("≥ %g", f.Target)
	default:
		return fmt.Sprintf("≤ %g", f.Target)
	}
}

// amount is a figure with its unit and the least and the most of its rounds.
func amount(x float64, rounds []float64, unit string) string {
	s := strings.TrimSpace(short(x) + " " + unit)
	if len(rounds) < 2 {
		return s
	}
	return fmt.Sprintf("%s (%s–%s)", s, short(slices.Min(rounds)), short(slices.Max(rounds)))
}

// short is a number with as many digits as people read.
func short(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	default:
		return fmt.Sprintf("%.2f", x)
	}
}

// chart is README's: how many frames pass between two clients, with ours and the old way, alone and among idle clients.
func (r report) chart() string {
	var ours, old []string
	for _, f := range r.Figures {
		if slices.Contains([]string{"single-old", "old8-single", "old64-single"}, f.Key) {
			v := f.judge()
			ours, old = append(ours, short(v.subject)), append(old, short(v.base))
		}
	}
	return fmt.Sprintf("  line [%s]\n  line [%s]\n", strings.Join(ours, ", "), strings.Join(old, ", "))
}
