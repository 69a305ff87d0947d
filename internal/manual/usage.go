// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// Usage texts have one form, and this is it:
//
//	Usage: socket_vmnet2 upgrade [--json] SOCKET     a line that begins with seven blanks goes on, or is another form of the command
//	Has the daemon at SOCKET go on ...               paragraphs
//
//	-p, --pidfile=PIDFILE                  text      options, their texts in one column, a blank line or a paragraph in front
//	                                       text
//	install                                text      other words that are explained, such as actions, have the same form
//
//	Exit code: 0 ..., 1 ...                          the last paragraph but for the version
//	Version: ...                                     left out
const (
	textColumn = 39
	lineLength = 120
)

// A usage is a usage text, taken apart.
type usage struct {
	command  string   // such as "socket_vmnet2 upgrade"
	synopsis []string // the forms of the command, without its name
	blocks   []block
	commands []string // the names of the subcommands, of the daemon's text only
	exit     string   // what follows "Exit code: "
}

// A block is a paragraph, or a list of explained words if there are items.
type block struct {
	text  string
	items []item
}

// An item is an option or another explained word.
type item struct {
	short, long string // of an option, without hyphens
	arg         string // empty where there is none
	word        string // of what is no option; several have commas between them
	text        []string
}

var (
	optionHead = regexp.MustCompile(`^(?:-([a-zA-Z]), )?--([a-z][a-z0-9-]*)(?:=(\S+))?$`)
	wordHead   = regexp.MustCompile(`^[a-z][a-z0-9-]*(, [a-z][a-z0-9-]*)*$`)
)

// commandsLine is how the daemon's text names the subcommands.
const commandsLine = "The first argument may also be a command, each with a --help of its own: "

// parseUsage takes the usage text of command apart.
func parseUsage(command, text string) (usage, error) {
	u := usage{command: command}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	n, err := u.forms(lines)
	if err != nil {
		return u, err
	}
	var para []string
	for ; n < len(lines); n++ {
		line := lines[n]
		it, isItem, err := parseItem(line)
		switch {
		case err != nil:
			return u, fmt.Errorf("%s: line %d of the usage text: %w: %q", command, n+1, err, line)
		case line == "" || isItem:
			u.paragraph(para)
			para = nil
			if isItem {
				u.item(it, n > 0 && lines[n-1] != "")
			}
		case strings.HasPrefix(line, strings.Repeat(" ", textColumn)) && line[textColumn] != ' ':
			if len(para) > 0 || !u.more(line[textColumn:]) {
				return u, fmt.Errorf("%s: line %d of the usage text goes on with the text of no option: %q", command, n+1, line)
			}
		case line[0] == ' ':
			return u, fmt.Errorf("%s: line %d of the usage text begins with a blank and not in column %d: %q", command, n+1, textColumn+1, line)
		default:
			para = append(para, line)
		}
	}
	u.paragraph(para)
	return u, nil
}

// forms reads the first lines, which are the forms of the command, and returns their number.
func (u *usage) forms(lines []string) (int, error) {
	start := "Usage: " + u.command + " "
	rest, ok := strings.CutPrefix(lines[0], start)
	if !ok {
		return 0, fmt.Errorf("%s: line 1 of the usage text does not begin with %q: %q", u.command, start, lines[0])
	}
	u.synopsis = []string{rest}
	n := 1
	for ; n < len(lines) && strings.HasPrefix(lines[n], "       "); n++ {
		more := strings.TrimSpace(lines[n])
		if form, another := strings.CutPrefix(more, u.command+" "); another {
			u.synopsis = append(u.synopsis, form)
		} else {
			u.synopsis[len(u.synopsis)-1] += " " + more
		}
	}
	return n, nil
}

// parseItem reads the first line of an option or a word. A line that begins with a hyphen has to be an option.
func parseItem(line string) (it item, ok bool, err error) {
	head, text := line, ""
	if len(line) > textColumn && line[textColumn-1] == ' ' {
		head, text = strings.TrimRight(line[:textColumn], " "), line[textColumn:]
	}
	isOption := strings.HasPrefix(line, "-")
	switch m := optionHead.FindStringSubmatch(head); {
	case isOption && m == nil:
		return it, false, fmt.Errorf("no option of the form --name=ARG or -n, --name=ARG with its text in column %d", textColumn+1)
	case isOption:
		it.short, it.long, it.arg = m[1], m[2], m[3]
	case text != "" && len(head) < textColumn-2 && wordHead.MatchString(head):
		it.word = head
	default:
		return it, false, nil
	}
	if text == "" || text[0] == ' ' {
		return it, false, fmt.Errorf("no text in column %d", textColumn+1)
	}
	it.text = []string{text}
	return it, true, nil
}

// paragraph adds one, if there are lines.
func (u *usage) paragraph(lines []string) {
	text := strings.Join(lines, " ")
	switch {
	case text == "" || strings.HasPrefix(text, "Version: "):
	case strings.HasPrefix(text, "Exit code: "):
		u.exit = strings.TrimPrefix(text, "Exit code: ")
	case strings.HasPrefix(text, commandsLine):
		u.commands = strings.Split(strings.TrimPrefix(text, commandsLine), ", ")
	default:
		u.blocks = append(u.blocks, block{text: text})
	}
}

// item adds an item, to the list that the line before belongs to if there is one.
func (u *usage) item(it item, adjacent bool) {
	if n := len(u.blocks); n > 0 && adjacent && u.blocks[n-1].items != nil {
		u.blocks[n-1].items = append(u.blocks[n-1].items, it)
		return
	}
	u.blocks = append(u.blocks, block{items: []item{it}})
}

// more adds a line to the text of the last item, and tells whether there is one.
func (u *usage) more(line string) bool {
	n := len(u.blocks)
	if n == 0 || u.blocks[n-1].items == nil {
		return false
	}
	items := u.blocks[n-1].items
	items[len(items)-1].text = append(items[len(items)-1].text, line)
	return true
}

// options are all of them, in order.
func (u *usage) options() []item {
	var all []item
	for _, b := range u.blocks {
		for _, it := range b.items {
			if it.long != "" {
				all = append(all, it)
			}
		}
	}
	return all
}

// head is the item as the usage text has it.
func (it *item) head() string {
	if it.long == "" {
		return it.word
	}
	h := "--" + it.long
	if it.short != "" {
		h = "-" + it.short + ", " + h
	}
	if it.arg != "" {
		h += "=" + it.arg
	}
	return h
}

// clauses are the lines of an item's text. Those of subcommands are broken where they are full. In the daemon's table a line is
// a remark of its own, unless it was broken because it was full.
func (it *item) clauses(table bool) []string {
	var all []string
	for i, line := range it.text {
		if i > 0 {
			first, _, _ := strings.Cut(line, " ")
			full := textColumn+len(it.text[i-1])+1+len(first) > lineLength
			if !table || full && line[0] != '"' || line[0] == '(' {
				all[len(all)-1] += " " + line
				continue
			}
		}
		all = append(all, line)
	}
	return all
}

// isTable tells whether the options are the daemon's.
func (u *usage) isTable() bool { return !strings.Contains(u.command, " ") }
