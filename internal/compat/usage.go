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
	textColumn = 39  // where the texts of options begin in socket_vmnet's usage text
	lineLength = 120 // of usage texts, at most
	minWidth   = 40  // of usage texts, at least
	usualWidth = 80  // where that of the terminal is not known
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

// commandsTitle is the category of commands.
const commandsTitle = "Commands, each with a --help of its own"

// head is what stands in front of it in a list.
func (it Item) head() string {
	if it.Category == commandsTitle {
		return it.Name
	}
	head := "--" + it.Name
	if it.Arg != "" {
		head += "=" + it.Arg
	}
	if it.Short != "" {
		head = "-" + it.Short + ", " + head
	}
	return head
}

// A page is a usage text that is being written.
type page struct {
	strings.Builder
	width, column int    // of a line, and where the texts of a list begin
	indent        string // of lists; empty: socket_vmnet's, whose column is fixed
}

// newPage is one of socket_vmnet2's, for a terminal of that width.
func newPage(width int) *page {
	return &page{width: min(max(cmp.Or(width, usualWidth), minWidth), lineLength), indent: "  "}
}

// text writes paragraphs.
func (p *page) text(s string) {
	var all []string
	for paragraph := range strings.SplitSeq(s, "\n\n") {
		all = append(all, strings.Join(printable.Wrap(paragraph, p.width), "\n")+"\n")
	}
	p.WriteString(strings.Join(all, "\n"))
}

// list writes items, each category under its name. The texts begin behind the longest head, where that leaves them room; a longer one
// has a line of its own.
func (p *page) list(items []Item) {
	if p.indent != "" {
		p.column = 0
		for _, it := range items {
			p.column = max(p.column, len(p.indent+it.head())+2)
		}
		p.column = min(p.column, p.width/2-8)
	}
	category := ""
	for _, it := range items {
		if it.Category != category {
			category = it.Category
			p.WriteByte('\n')
			p.text(category + ":")
		}
		head := p.indent + it.head()
		if len(head)+2 > p.column {
			p.WriteString(head + "\n")
			head = ""
		}
		for _, remark := range it.Text {
			for _, line := range printable.Wrap(remark, p.width-p.column) {
				fmt.Fprintf(p, "%-*s %s\n", p.column-1, head, line)
				head = ""
			}
		}
	}
}

// Usage is the usage text of a command, which is one entry of urfave's tree, for a terminal of this width: its Usage is what is said in
// front of the options, its Description what follows them, its ArgsUsage the operands. The Usage of a flag that takes an argument begins
// with the name of that in backquotes, "(a|b)" for a choice; each of its lines is a remark of its own. Flags with a Category are listed
// behind the others, under it.
func Usage(c *cli.Command, width int) string {
	p := newPage(width)
	p.text(fmt.Sprintf("Usage: %s %s [OPTION]... %s", Program, c.Name, c.ArgsUsage))
	p.text(c.Usage)
	p.WriteByte('\n')
	p.list(Items(c.Flags))
	if c.Description != "" {
		p.WriteByte('\n')
		p.text(c.Description)
	}
	return p.String()
}

// usage is the usage text of the daemon. That of the new program has the commands, and what each option is in short.
func usage(p Personality, argv0 string, env IO) string {
	const purpose = "Connects virtual machines (QEMU, Lima, minikube, ...) that open the unix socket SOCKET to one network."
	if p == Old {
		b := &page{width: lineLength, column: textColumn}
		fmt.Fprintf(b, "Usage: %s [OPTION]... SOCKET\n%s\n\n", argv0, purpose)
		b.list(Items(Flags(Old)))
		fmt.Fprintf(b, "\nVersion: %s\n", Version)
		return b.String()
	}
	b := newPage(env.Width)
	b.WriteString("Usage: " + Program + " [OPTION]... SOCKET\n       " + Program + " COMMAND [ARG]...\n")
	b.text(purpose)
	commands := slices.Clone(env.Commands)
	for i := range commands {
		commands[i].Category = commandsTitle
	}
	b.list(commands)
	b.list(grouped(Items(Flags(New))))
	b.WriteString("\nExamples:\n")
	for _, line := range examples {
		b.WriteString("  " + strings.Join(printable.Wrap(line, b.width-4), " \\\n    ") + "\n")
	}
	fmt.Fprintf(b, "\nAll about options: man socket_vmnet2\nVersion: %s\n", Version)
	return b.String()
}

// grouped are the items in the order of groups, with the first remark of each alone.
func grouped(items []Item) (all []Item) {
	for _, g := range groups {
		for name := range strings.FieldsSeq(g.options) {
			it := items[slices.IndexFunc(items, func(it Item) bool { return it.Name == name })]
			it.Category, it.Text = g.title, it.Text[:1]
			all = append(all, it)
		}
	}
	return all
}
