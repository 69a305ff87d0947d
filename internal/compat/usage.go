// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

const (
	textColumn = 39  // where the texts of options begin
	lineLength = 120 // of usage texts
)

// Program is what the tree's commands belong to.
const Program = "socket_vmnet2"

// An Item is a flag as parsing and texts have it.
type Item struct {
	Name, Short string   // without hyphens; Short may be empty
	Arg         string   // empty where there is none
	Text        []string // a remark each
	Category    string
	hidden      bool
}

// Items are the visible flags: those without a Category first.
func Items(flags []cli.Flag) []Item {
	all := slices.DeleteFunc(itemsOf(flags), func(it Item) bool { return it.hidden })
	slices.SortStableFunc(all, func(a, b Item) int { return cmp.Compare(min(len(a.Category), 1), min(len(b.Category), 1)) })
	return all
}

func itemsOf(flags []cli.Flag) (all []Item) {
	for _, f := range flags {
		d, ok := f.(interface {
			cli.DocGenerationFlag
			cli.CategorizableFlag
		})
		if !ok {
			continue
		}
		it := Item{Name: f.Names()[0], Category: d.GetCategory(), hidden: !d.IsVisible()}
		if len(f.Names()) > 1 {
			it.Short = f.Names()[1]
		}
		text := d.GetUsage()
		if d.TakesValue() {
			it.Arg, text, _ = strings.Cut(strings.TrimPrefix(text, "`"), "` ")
			it.Arg = cmp.Or(it.Arg, "VALUE")
		}
		it.Text = strings.Split(text, "\n")
		all = append(all, it)
	}
	return all
}

// optionLines are the lines of a usage text about flags.
func optionLines(flags []cli.Flag) string {
	var b strings.Builder
	category := ""
	for _, it := range Items(flags) {
		if it.Category != category {
			category = it.Category
			fmt.Fprintf(&b, "\n%s:\n", category)
		}
		head := "--" + it.Name
		if it.Arg != "" {
			head += "=" + it.Arg
		}
		if it.Short != "" {
			head = "-" + it.Short + ", " + head
		}
		for _, remark := range it.Text {
			for _, line := range printable.Wrap(remark, lineLength-textColumn) {
				fmt.Fprintf(&b, "%-*s %s\n", textColumn-1, head, line)
				head = ""
			}
		}
	}
	return b.String()
}

// Usage is the usage text of a command, which is one entry of urfave's tree: its Usage is what is said in front of the options, its
// Description what follows them, its ArgsUsage the operands. The Usage of a flag that takes an argument begins with the name of that in
// backquotes, "(a|b)" for a choice; each of its lines is a remark of its own. Flags with a Category are listed behind the others, under
// it.
func Usage(c *cli.Command) string {
	form := strings.TrimSpace("[OPTION]... " + c.ArgsUsage)
	text := fmt.Sprintf("Usage: %s %s %s\n%s\n\n%s", Program, c.Name, form, c.Usage, optionLines(c.Flags))
	if c.Description != "" {
		text += "\n" + c.Description + "\n"
	}
	return text
}
