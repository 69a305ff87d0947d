// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"
	"strings"
)

// gap is what stands between two columns.
const gap = "  "

// A column of a table.
type column struct {
	title string
	rank  int  // the lowest stays longest when the terminal is narrow
	least int  // cells to which it may be cut; 0: it is shown whole or not at all
	right bool // numbers
	cells []string
	style func(row int) string // of a cell; nil: none
}

// shown is a column with the width that it has got.
type shown struct {
	column
	width int
}

// natural is the width at which nothing is cut.
func (c column) natural() int {
	n := width(c.title)
	for _, text := range c.cells {
		n = max(n, width(text))
	}
	return n
}

// fit chooses the columns that fit, and their widths. Without a limit it is all of them.
func fit(columns []column, limit int) []shown {
	all := make([]shown, len(columns))
	order := make([]int, len(columns))
	for i, c := range columns {
		all[i], order[i] = shown{c, c.natural()}, i
	}
	if limit <= 0 {
		return all
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(columns[a].rank, columns[b].rank) })
	used := -len(gap)
	taken := make([]bool, len(columns))
	for n, i := range order {
		w := all[i].width
		if least := columns[i].least; least > 0 {
			w = min(w, max(least, width(columns[i].title)))
		}
		if n == 0 || used+len(gap)+w <= limit {
			taken[i], used, all[i].width = true, used+len(gap)+w, w
		}
	}
	for _, i := range order { // what is left goes to those that were cut
		if more := min(columns[i].natural()-all[i].width, limit-used); taken[i] && more > 0 {
			all[i].width += more
			used += more
		}
	}
	var list []shown
	for i, c := range all {
		if taken[i] {
			list = append(list, c)
		}
	}
	return list
}

// table writes columns of rows cells each.
func (p *page) table(columns []column, rows int) {
	list := fit(columns, p.limit())
	for row := -1; row < rows; row++ {
		var line strings.Builder
		for i, c := range list {
			text, style := c.title, bold
			if row >= 0 {
				if text, style = c.cells[row], ""; c.style != nil {
					style = c.style(row)
				}
			}
			text = cut(text, c.width)
			if last := i == len(list)-1; !last || c.right {
				text = pad(text, c.width, c.right)
			}
			if i > 0 {
				line.WriteString(gap)
			}
			line.WriteString(p.styled(style, text))
		}
		p.text.WriteString(line.String())
		p.text.WriteByte('\n')
	}
}
