// SPDX-License-Identifier: Apache-2.0

package cmdline

import (
	"fmt"
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

// An Item is a flag as texts have it.
type Item struct {
	Name, Short string   // without hyphens; Short may be empty
	Arg         string   // empty where there is none
	Text        []string // a remark each
	Category    string
}

// Items are the visible flags: those without a Category first.
func Items(flags []cli.Flag) (all []Item) {
	var more []Item
	for _, f := range flags {
		d, ok := f.(interface {
			cli.DocGenerationFlag
			cli.CategorizableFlag
		})
		if !ok || !d.IsVisible() {
			continue
		}
		it := Item{Name: f.Names()[0], Category: d.GetCategory()}
		if len(f.Names()) > 1 {
			it.Short = f.Names()[1]
		}
		text := d.GetUsage()
		if d.TakesValue() {
			it.Arg, text, _ = strings.Cut(strings.TrimPrefix(text, "`"), "` ")
		}
		it.Text = strings.Split(text, "\n")
		if it.Category == "" {
			all = append(all, it)
		} else {
			more = append(more, it)
		}
	}
	return append(all, more...)
}

// Options are the lines of a usage text about flags.
func Options(flags []cli.Flag) string {
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

// Usage is the usage text of a command.
func Usage(c *cli.Command) string {
	form := strings.TrimSpace("[OPTION]... " + c.ArgsUsage)
	text := fmt.Sprintf("Usage: %s %s %s\n%s\n\n%s", Program, c.Name, form, c.Usage, Options(c.Flags))
	if c.Description != "" {
		text += "\n" + c.Description + "\n"
	}
	return text
}
