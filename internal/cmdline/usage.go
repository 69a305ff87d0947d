// SPDX-License-Identifier: Apache-2.0

package cmdline

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
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

// head is the option with its argument.
func (it *Item) head() string {
	h := "--" + it.Name
	if it.Arg != "" {
		h += "=" + it.Arg
	}
	return h
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
		head := it.head()
		if it.Short != "" {
			head = "-" + it.Short + ", " + head
		}
		for _, remark := range it.Text {
			for _, line := range wrap(remark, lineLength-textColumn) {
				fmt.Fprintf(&b, "%-*s %s\n", textColumn-1, head, line)
				head = ""
			}
		}
	}
	return b.String()
}

// form is a command's line of a usage text, without the program's name.
func form(c *cli.Command) string {
	words := []string{c.Name}
	items := Items(c.Flags)
	for i, it := range items {
		switch {
		case it.Category == "" && it.Name != "help":
			words = append(words, "["+it.head()+"]")
		case it.Category != "" && i == len(items)-1:
			words = append(words, "[OPTION]...")
		}
	}
	return strings.TrimSpace(strings.Join(append(words, c.ArgsUsage), " "))
}

// Usage is the usage text of a command.
func Usage(c *cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s ", Program)
	b.WriteString(strings.Join(wrap(form(c), lineLength-b.Len()), "\n       "))
	fmt.Fprintf(&b, "\n%s\n\n%s", c.Usage, Options(c.Flags))
	if c.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Description)
	}
	return b.String()
}

// wrap breaks text into lines of so many bytes.
func wrap(text string, length int) (lines []string) {
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case word == "":
		case line == "":
			line = word
		case len(line)+1+len(word) > length:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
