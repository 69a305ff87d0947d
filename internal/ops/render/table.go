// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// gap is what stands between two columns.
const gap = "  "

// stateTitle is that of the column which shows in colour that a client is not running.
const stateTitle = "STATE"

// A column of the table of clients.
type column struct {
	title string
	rank  int  // the lowest stays longest when the terminal is narrow
	least int  // cells to which it may be cut; 0: it is shown whole or not at all
	right bool // numbers
	cell  func(status.Client) string
}

// shown is a column with its cells, the width at which none of them is cut, and the width that it has got; 0: it is left out.
type shown struct {
	column
	cells          []string
	natural, width int
}

// fit chooses the columns that fit, and their widths. Without a limit it is all of them.
func fit(all []*shown, limit int) {
	byRank := slices.SortedStableFunc(slices.Values(all), func(a, b *shown) int { return cmp.Compare(a.rank, b.rank) })
	used := -len(gap)
	for i, c := range byRank {
		w := c.natural
		if c.least > 0 && limit > 0 {
			w = min(w, max(c.least, width(c.title)))
		}
		if i == 0 || limit <= 0 || used+len(gap)+w <= limit {
			c.width = w
			used += len(gap) + w
		}
	}
	for _, c := range byRank { // what is left goes to those that were cut
		if more := min(c.natural-c.width, limit-used); c.width > 0 && more > 0 {
			c.width += more
			used += more
		}
	}
}

// table writes a row for each client.
func (p *page) table(columns []column, clients []status.Client) {
	all := make([]*shown, len(columns))
	for i, c := range columns {
		all[i] = &shown{column: c, natural: width(c.title)}
		for _, client := range clients {
			text := p.cell(c.cell(client))
			all[i].cells = append(all[i].cells, text)
			all[i].natural = max(all[i].natural, width(text))
		}
	}
	fit(all, p.limit())
	all = slices.DeleteFunc(all, func(c *shown) bool { return c.width == 0 })
	for row := -1; row < len(clients); row++ {
		for i, c := range all {
			text, style := c.title, bold
			if row >= 0 {
				if text, style = c.cells[row], ""; c.title == stateTitle && clients[row].State != status.StateRunning {
					style = yellow
				}
			}
			text = cut(text, c.width)
			if last := i == len(all)-1; !last || c.right {
				text = pad(text, c.width, c.right)
			}
			if i > 0 {
				p.text.WriteString(gap)
			}
			p.text.WriteString(p.styled(style, text))
		}
		p.text.WriteByte('\n')
	}
}
