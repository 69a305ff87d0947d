// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// pageLine is how long a line of text may be: mandoc finds fault with more than 80.
const pageLine = 79

// noMacro keeps a line from being taken for a macro.
func noMacro(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// form writes how a command is called, a macro for each part.
func form(c *cli.Command) string {
	lines := []string{".Nm " + compat.Program, ".Cm " + c.Name, ".Op Ar OPTION ..."}
	for word := range strings.FieldsSeq(c.ArgsUsage) {
		word, more := strings.CutSuffix(word, "...")
		inner := strings.Trim(word, "[]")
		switch {
		case inner == "--":
			inner = `Fl \-`
		case inner == strings.ToLower(inner):
			inner = "Cm " + strings.ReplaceAll(inner, "|", " | ")
		default:
			inner = "Ar " + inner
		}
		if more {
			inner += " ..."
		}
		if word[0] == '[' {
			lines = append(lines, ".Oo")
		}
		lines = append(lines, "."+inner)
		if strings.HasSuffix(word, "]") {
			lines = append(lines, ".Oc")
		}
	}
	return strings.Join(lines, "\n")
}

// macro is an option with its argument.
func macro(it compat.Item) string {
	m := `Fl \-` + strings.ReplaceAll(it.Name, "-", `\-`)
	if it.Arg != "" {
		m += " Ns = Ns Ar " + it.Arg
	}
	if strings.HasSuffix(m, ":") { // no colon of a sentence
		m += `\&`
	}
	return m
}

// options writes a list.
func options(items []compat.Item) string {
	var b strings.Builder
	b.WriteString(".Bl -tag -width Ds\n")
	for _, it := range items {
		head := macro(it)
		if it.Short != "" {
			head = "Fl " + it.Short + " , " + head
		}
		fmt.Fprintf(&b, ".It %s\n%s\n", head, text(strings.Join(it.Text, "\n\n"), ".br"))
	}
	return b.String() + ".El"
}

// body writes a command's texts and options. Those that the daemon has as well are only named.
func body(c *cli.Command) string {
	items := compat.Items(c.Flags)
	n := slices.IndexFunc(items, func(it compat.Item) bool { return it.Category != "" })
	parts := []string{text(c.Usage, ".Pp")}
	if n < 0 {
		n = len(items)
	}
	parts = append(parts, options(items[:n]))
	if n < len(items) {
		var names []string
		for _, it := range items[n:] {
			names = append(names, "."+macro(compat.Item{Name: it.Name}))
		}
		parts = append(parts, ".Pp\n"+items[n].Category+":\n"+strings.Join(names, " ,\n")+" .")
	}
	return strings.Join(append(parts, ".Pp\n"+text(c.Description, ".Pp")), "\n")
}

var (
	longOption  = regexp.MustCompile(`(^|[ ("])-(-?[a-z][a-z0-9-]*|-( |$))`)
	sentenceEnd = regexp.MustCompile(`([.!?]\)?) +([A-Z{])`)
)

// text writes paragraphs, with a macro between two: a sentence begins a line, and nothing in it is taken for a macro.
func text(s, between string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = longOption.ReplaceAllStringFunc(s, func(m string) string { return strings.ReplaceAll(m, "-", `\-`) })
	var all []string
	for paragraph := range strings.SplitSeq(s, "\n\n") {
		var lines []string
		for sentence := range strings.SplitSeq(sentenceEnd.ReplaceAllString(strings.ReplaceAll(paragraph, "\n", " "), "$1\n$2"), "\n") {
			for _, l := range printable.Wrap(sentence, pageLine) {
				lines = append(lines, noMacro(l))
			}
		}
		all = append(all, strings.Join(lines, "\n"))
	}
	return strings.Join(all, "\n"+between+"\n")
}
