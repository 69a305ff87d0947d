// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

// A row is one set-up.
type row struct {
	run   *figures.Run
	key   figures.Key
	group figures.Group
}

// rowsOf are the set-ups of a run that match, in the order of tables.
func rowsOf(run *figures.Run, q figures.Key) (rows []row, err error) {
	keys := run.Keys(q)
	slices.SortStableFunc(keys, func(a, b figures.Key) int { return a.Compare(b, order) })
	for _, k := range keys {
		g, err := run.Exactly(k)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{run, k, g})
	}
	return rows, nil
}

// A column of a table. One that has nothing to show in any row is left out, and so is one of zeros if it is only of interest where
// there is something.
type column struct {
	head    string
	cell    func(r row) string
	nonzero bool
}

// A dimension is a column that tells set-ups apart. Where all rows agree, it goes into the caption.
type dimension struct {
	column
	caption string // with %s for what all rows have; none if empty
}

// tcp tells whether frames are those of a kernel's stack, whose size is a matter of the MTU.
func tcp(k figures.Key) bool { return strings.HasPrefix(k.Sender, figures.TCP) }

// etherHeader is by how much a frame is longer than the MTU, in bytes.
const etherHeader = 14

// number shows a count, or nothing where it does not apply.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// mtu is that of a kernel's stack.
func mtu(k figures.Key) string { return number(max(k.Frame-etherHeader, 0)) }

var dimensions = []dimension{
	{column{head: "direction", cell: func(r row) string { return escape(strings.ReplaceAll(r.key.Direction, "-", " ")) }}, "%s"},
	{column{head: "transport", cell: func(r row) string { return escape(r.key.Transport) }}, "transport: %s"},
	{column{head: "sender", cell: func(r row) string { return escape(senderLabel(r.key.Sender)) }}, "sender: %s"},
	{column{head: "MTU", cell: func(r row) string {
		if tcp(r.key) {
			return mtu(r.key)
		}
		return ""
	}}, "MTU: %s"},
	{column{head: "frame, B", cell: func(r row) string {
		if tcp(r.key) {
			return ""
		}
		return number(r.key.Frame)
	}}, "frames of %s B"},
	{column{head: "meanwhile", cell: func(r row) string { return loadLabel(r.key) }}, "%s"},
	{column{head: "clients", cell: func(r row) string { return number(r.key.Clients) }}, "clients: %s"},
	{column{head: "of them active", cell: func(r row) string { return number(r.key.Active) }}, "active: %s"},
	{column{head: "relay", cell: func(r row) string { return escape(kindOf(r.key.Relay).label) }}, "%s"},
}

// table renders the rows. It is empty if they have none of what the columns show.
func (k tableKind) table(rows []row) string {
	columns := slices.DeleteFunc(slices.Clone(k.columns), func(c column) bool {
		same, ok := constant(rows, c)
		return ok && (same == "" || c.nonzero && same == "0")
	})
	if len(rows) == 0 || len(columns) == 0 {
		return ""
	}
	var shown []column
	caption := []string{k.what}
	for _, d := range dimensions {
		if k.only != nil && !slices.Contains(k.only, d.head) {
			continue
		}
		if same, ok := constant(rows, d.column); !ok {
			shown = append(shown, d.column)
		} else if same != "" {
			caption = append(caption, fmt.Sprintf(d.caption, same))
		}
	}
	if !distinct(rows, shown) {
		shown = append(shown, column{head: "set-up", cell: func(r row) string { return escape(r.key.Setup) }})
	}
	var b strings.Builder
	render(&b, rows, append(shown, columns...))
	fmt.Fprintf(&b, "\n*%s. %s, %s.%s*", strings.Join(caption, "; "), roundsOf(rows), code(rows[0].run.Name+".json"), oldIn(rows))
	return b.String()
}

// render writes head, line and rows.
func render(b *strings.Builder, rows []row, columns []column) {
	line := func(cell func(c column) string) {
		for _, c := range columns {
			fmt.Fprintf(b, "| %s ", cell(c))
		}
		b.WriteString("|\n")
	}
	line(func(c column) string { return c.head })
	line(func(column) string { return "---" })
	for _, r := range rows {
		line(func(c column) string { return c.cell(r) })
	}
}

// constant tells whether all rows have the same in a column, and what.
func constant(rows []row, c column) (string, bool) {
	if len(rows) == 0 {
		return "", true
	}
	first := c.cell(rows[0])
	for _, r := range rows[1:] {
		if c.cell(r) != first {
			return "", false
		}
	}
	return first, true
}

// distinct tells whether columns tell all rows apart.
func distinct(rows []row, columns []column) bool {
	seen := map[string]bool{}
	for _, r := range rows {
		var id strings.Builder
		for _, c := range columns {
			id.WriteString(c.cell(r) + "|")
		}
		if seen[id.String()] {
			return false
		}
		seen[id.String()] = true
	}
	return true
}

// plural counts.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// roundsOf says how many rounds the rows are of.
func roundsOf(rows []row) string {
	low, high := len(rows[0].group), 0
	for _, r := range rows {
		low, high = min(low, len(r.group)), max(high, len(r.group))
	}
	if low == high {
		return plural(low, "round")
	}
	return fmt.Sprintf("%d to %d rounds", low, high)
}

// oldIn is the note about the old way if one of the rows is of it.
func oldIn(rows []row) string {
	if slices.ContainsFunc(rows, func(r row) bool { return r.key.Relay == rounds.Old }) {
		return " " + oldNote
	}
	return ""
}

// figure is the column of a metric.
func figure(m figures.Metric, head string) column {
	return column{head: head, cell: func(r row) string {
		v, ok := m.Of(r.group)
		if !ok {
			return ""
		}
		return figures.Format(v.Value)
	}}
}

// spread is the column of a metric with the rounds that it comes from.
func spread(m figures.Metric, head string) column {
	return column{head: head, cell: func(r row) string {
		v, ok := m.Of(r.group)
		switch {
		case !ok:
			return ""
		case v.Spread() == "":
			return figures.Format(v.Value)
		}
		return fmt.Sprintf("%s (%s)", figures.Format(v.Value), v.Spread())
	}}
}

// count is the column of a metric that is of interest only where it is not 0.
func count(m figures.Metric, head string) column {
	c := figure(m, head)
	c.nonzero = true
	return c
}

// against is the column of the daemon's ratio to another relay that was measured beside.
func against(m figures.Metric, relay, head string) column {
	return column{head: head, cell: func(r row) string {
		if !ours(r.key.Relay) {
			return ""
		}
		ratio, ok := figures.Compare(m, r.group, r.run.Beside(r.key, relay))
		if !ok {
			return ""
		}
		return figures.Format(ratio.Ratio) + "x"
	}}
}
