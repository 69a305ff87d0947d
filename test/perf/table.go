// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

// A row is the results of one run.
type row struct {
	name string
	uses map[string]use // by direction
}

func (r *row) set(direction string, u use) {
	if r.uses == nil {
		r.uses = map[string]use{}
	}
	r.uses[direction] = u
}

// row is the results of run as a row of the table.
func (p *perf) row(results []result) row {
	r := row{name: p.config()}
	for _, one := range results {
		r.set(one.direction, one.use)
	}
	return r
}

// unknown stands in tables for what was not measured.
const unknown = "-"

func count(n *uint64) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

func decimal(format string, v *float64) string {
	if v == nil {
		return unknown
	}
	return fmt.Sprintf(format, *v)
}

// perSecond is a count of u as a rate.
func (u *use) perSecond(n *uint64) string {
	if n == nil || u.Seconds <= 0 {
		return unknown
	}
	return fmt.Sprintf("%.0f", float64(*n)/u.Seconds)
}

// memory is what the daemon has for itself, or all that is resident where that is not told.
func (u *use) memory() string {
	for _, kib := range []*uint64{u.AnonKiB, u.ResidentKiB} {
		if kib != nil {
			return fmt.Sprintf("%.1f", float64(*kib)/1024)
		}
	}
	return unknown
}

// table is Markdown.
func table(rows []row) string {
	lines := [][]string{{
		"network-machines-count", "direction", "Gbit/s", "retransmits", "daemon: CPU s/GB", "Mbit/s per % CPU", "waits/s", "preempted/s", "MiB",
	}}
	for _, r := range rows {
		for _, direction := range directions {
			u, ok := r.uses[direction]
			if !ok {
				continue
			}
			lines = append(lines, []string{
				r.name, direction, fmt.Sprintf("%.3f", u.BitsPerSecond/1e9), count(u.Retransmits), decimal("%.3f", u.CPUPerGB),
				decimal("%.1f", u.MbitPerCPU), u.perSecond(u.Voluntary), u.perSecond(u.Involuntary), u.memory(),
			})
		}
	}
	return markdown(lines, 2)
}

// markdown draws a table whose first line is the head. The first left columns are aligned to the left.
func markdown(lines [][]string, left int) string {
	widths := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, cell := range l {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for n, l := range lines {
		for i, cell := range l {
			if i < left {
				fmt.Fprintf(&b, "| %-*s ", widths[i], cell)
			} else {
				fmt.Fprintf(&b, "| %*s ", widths[i], cell)
			}
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, w := range widths {
			rule := strings.Repeat("-", w+2)
			if i >= left {
				rule = rule[1:] + ":"
			}
			b.WriteString("|" + rule)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// A comparison is the results of an old and a new daemon in one direction.
type comparison struct {
	name     string
	old, new []use
}

func (c *comparison) add(side string, u use) {
	if side == sideOld {
		c.old = append(c.old, u)
	} else {
		c.new = append(c.new, u)
	}
}

// compareTable is Markdown: medians of both daemons and their ratios.
func compareTable(comparisons []comparison) string {
	lines := [][]string{{"", "daemon", "rounds", "Gbit/s", "lowest", "highest", "retransmits", "CPU s/GB", "Gbit/s new/old", "CPU s/GB new/old"}}
	speed := func(u use) *float64 { v := u.BitsPerSecond / 1e9; return &v }
	cost := func(u use) *float64 { return u.CPUPerGB }
	retransmits := func(u use) *float64 {
		if u.Retransmits == nil {
			return nil
		}
		v := float64(*u.Retransmits)
		return &v
	}
	for _, c := range comparisons {
		for _, side := range []string{sideOld, sideNew} {
			uses, ratios := c.old, []string{"", ""}
			if side == sideNew {
				uses, ratios = c.new, []string{ratio(median(c.new, speed), median(c.old, speed)), ratio(median(c.new, cost), median(c.old, cost))}
			}
			low, high := bounds(uses, speed)
			lines = append(lines, append([]string{
				c.name, fmt.Sprintf("%s: %s", side, relayOf(uses)), fmt.Sprint(len(uses)), decimal("%.3f", median(uses, speed)), low, high,
				decimal("%.0f", median(uses, retransmits)), decimal("%.3f", median(uses, cost)),
			}, ratios...))
		}
	}
	return markdown(lines, 2)
}

// relayOf is the kind of daemon that uses are of, for people.
func relayOf(uses []use) string {
	if len(uses) == 0 || uses[0].Relay == "" {
		return unknown
	}
	if uses[0].Relay == rounds.Old {
		return "stand-in for socket_vmnet"
	}
	return uses[0].Relay
}

// values are those of f that were measured, in order.
func values(uses []use, f func(use) *float64) []float64 {
	var vs []float64
	for _, u := range uses {
		if v := f(u); v != nil {
			vs = append(vs, *v)
		}
	}
	slices.Sort(vs)
	return vs
}

func median(uses []use, f func(use) *float64) *float64 {
	vs := values(uses, f)
	if len(vs) == 0 {
		return nil
	}
	m := (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
	return &m
}

func bounds(uses []use, f func(use) *float64) (low, high string) {
	vs := values(uses, f)
	if len(vs) == 0 {
		return unknown, unknown
	}
	return fmt.Sprintf("%.3f", vs[0]), fmt.Sprintf("%.3f", vs[len(vs)-1])
}

func ratio(a, b *float64) string {
	if a == nil || b == nil || *b == 0 {
		return unknown
	}
	return fmt.Sprintf("%.2fx", *a / *b)
}
