// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// limitText is how a limit is shown, and unit what the figure has behind it.
func (t target) limitText() string {
	sign := "≥ "
	if t.atMost {
		sign = "≤ "
	}
	return sign + trim(t.limit) + t.unit()
}

func (t target) unit() string {
	if t.base != nil {
		return "x"
	}
	return " " + t.metric.Unit
}

// trim shows a limit as it was written.
func trim(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%g", x), ".0") }

// targetTable is the table of all targets.
func targetTable(runs []*figures.Run) (string, error) {
	var b strings.Builder
	b.WriteString("| target | asked | measured | socket_vmnet2 | against | decided by | rounds | |\n|---|---|---|---|---|---|---|---|\n")
	few, old := false, false
	for _, t := range targets {
		all, err := t.results(runs)
		if err != nil {
			return "", err
		}
		if len(all) == 0 {
			fmt.Fprintf(&b, "| %s | %s | | | | | | not measured |\n", t.text, t.limitText())
		}
		for _, r := range all {
			unit := r.metric.Unit
			if r.how == "CPU" {
				unit = figures.CPU.Unit
				if r.metric.Unit == figures.Gbit.Unit {
					unit = figures.CPUGB.Unit
				}
			}
			against := ""
			if r.against != "" {
				against = r.against + " " + unit
			}
			fmt.Fprintf(&b, "| %s%s | %s | %s%s | %s %s | %s | %s | %d | %s |\n", t.text, variant(all, r), t.limitText(),
				figures.Format(r.figure), t.unit(), figures.Format(r.value.Value), unit, against, r.how, r.value.N, r.verdict())
			few = few || r.few
			old = old || t.base != nil && t.base(r.key).Relay == rounds.Old
		}
	}
	b.WriteString("\n*Each ratio is of rounds of one run.")
	if old {
		b.WriteString(" " + oldNote)
	}
	if few {
		fmt.Fprintf(&b, " † Fewer rounds than are wanted where the best decides: %d, or %d starts.", manyRounds, startRounds)
	}
	b.WriteString("*")
	return b.String(), nil
}

// summary counts.
func summary(runs []*figures.Run) (string, error) {
	var met, missed, without int
	for _, t := range targets {
		all, err := t.results(runs)
		if err != nil {
			return "", err
		}
		switch {
		case len(all) == 0:
			without++
		case slices.ContainsFunc(all, func(r result) bool { return !r.met() }):
			missed++
		default:
			met++
		}
	}
	return fmt.Sprintf("%d of %d targets are met, %d missed, %d not measured.", met, len(targets), missed, without), nil
}
