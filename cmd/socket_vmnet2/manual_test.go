// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

var update = flag.Bool("update", false, "write the manual pages and completions")

// TestManual: manual pages and completions are what the tables of options and commands give. The prose around them, and the shell code that
// gets the tables, are templates in testdata/manual.
func TestManual(t *testing.T) {
	tables := manualTables()
	for name, in := range map[string]string{
		"docs/man/socket_vmnet2.8": "prose", "docs/man/socket_vmnet.8": "prose",
		"etc/completions/socket_vmnet2.bash": "shell", "etc/completions/_socket_vmnet2": "shell", "etc/completions/socket_vmnet2.fish": "shell",
	} {
		base := path.Base(name)
		tmpl, err := template.New(base).Funcs(template.FuncMap{
			"form": manForm, "body": manBody, "quote": shellQuote, "fish": fishQuote, "join": strings.Join,
			"options": func(flags []cli.Flag) string { return manOptions(compat.Items(flags)) },
		}).ParseFiles(filepath.Join("testdata/manual", in, base))
		require.NoError(t, err)
		var want bytes.Buffer
		require.NoError(t, tmpl.Execute(&want, tables), name)
		file := filepath.Join("../..", name)
		if *update {
			require.NoError(t, os.WriteFile(file, want.Bytes(), 0o644))
		}
		assert.Equal(t, want.String(), string(readFile(t, file)), "%s is not current: run make manual", name)
	}
}

// shellQuote makes one word for a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// fishQuote makes one word for fish, where a backslash counts within quotes.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

// commandTables are what the programs take.
type commandTables struct {
	Old, Daemon []cli.Flag     // of socket_vmnet, and of socket_vmnet2 without a command
	Commands    []*cli.Command // of socket_vmnet2

	Names  []string // of the commands
	Texts  []string // "name:text"
	Takers []taker
	Values map[string][]string // "taker --option", quoted, by what they take: words, and kinds of things with a colon in front
}

// A taker is a program, or one of its commands, with what it takes.
type taker struct {
	Name     string
	Words    []string // options; one that takes a value ends with an equals sign
	Texts    []string // "option:text"
	Operands []string // one after the other, as for a value
	Rest     string   // what may be any number of times behind them
}

func manualTables() *commandTables {
	t := &commandTables{
		Old: compat.Flags(compat.Old), Daemon: compat.Flags(compat.New), Commands: commands(compat.IO{}), Values: map[string][]string{},
	}
	for _, c := range t.Commands {
		t.Names = append(t.Names, c.Name)
		t.Texts = append(t.Texts, c.Name+":"+summaries[c.Name])
	}
	t.take(compat.Program, t.Daemon, "SOCKET")
	t.take("socket_vmnet", t.Old, "SOCKET")
	for _, c := range t.Commands {
		operands := c.ArgsUsage
		if c.Name == "help" { // its COMMAND is none of the system's
			operands = strings.Join(t.Names, "|")
		}
		t.take(compat.Program+" "+c.Name, c.Flags, operands)
	}
	return t
}

// take notes what something takes.
func (t *commandTables) take(name string, flags []cli.Flag, operands string) {
	k := taker{Name: name}
	k.Operands, k.Rest = operandKinds(operands)
	if !strings.Contains(name, " ") { // the daemon makes its SOCKET
		k.Operands = []string{":file"}
	}
	for _, it := range compat.Items(flags) {
		word := "--" + it.Name
		if it.Arg != "" {
			kind := kindOf(it.Arg)
			t.Values[kind] = append(t.Values[kind], shellQuote(name+" "+word))
			if it.Short != "" {
				t.Values[kind] = append(t.Values[kind], shellQuote(name+" -"+it.Short))
			}
			word += "="
		}
		k.Words = append(k.Words, word)
		k.Texts = append(k.Texts, word+":"+it.Text[0])
	}
	t.Takers = append(t.Takers, k)
}

// kinds are what arguments are, by their names in usage texts.
var kinds = map[string]string{
	"SOCKET": ":socket", "CLIENT": ":client", "FILE": ":file", "PIDFILE": ":file", "PATH": ":file",
	"DIR": ":dir", "USER": ":user", "UID": ":user", "GROUP": ":group", "INTERFACE": ":interface", "IF": ":interface",
	"COMMAND": ":command", "LEVEL": "debug info warn error", "--": "--",
}

// kindOf tells what an argument may be: "(a|b)" are words, "DIR|none" is a directory or a word.
func kindOf(arg string) string {
	var all []string
	for name := range strings.SplitSeq(strings.Trim(arg, "()"), "|") {
		switch kind := kinds[name]; {
		case kind != "":
			all = append(all, kind)
		case name == strings.ToLower(name):
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return ":none"
	}
	return strings.Join(all, " ")
}

// operandKinds tells what the operands of a command may be. "--" stands where it is needed, with ":option" where it may also be left
// out; ":daemon" means that a command line of the daemon follows. rest is what may be there any number of times.
func operandKinds(argsUsage string) (all []string, rest string) {
	again := false
	for word := range strings.FieldsSeq(argsUsage) {
		switch kind := kindOf(strings.Trim(strings.TrimSuffix(word, "..."), "[]")); {
		case word == "[--":
			return append(all, ":option --", ":daemon"), ""
		case strings.HasSuffix(word, "...") && word != "[ARG]...", again:
			again = true
			if kind != ":none" {
				rest = strings.TrimSpace(rest + " " + kind)
			}
		case kind != ":none" || word[0] != '[':
			all = append(all, kind)
		}
	}
	return all, rest
}

// pageLine is how long a line of text may be: mandoc finds fault with more than 80.
const pageLine = 79

// manForm writes how a command is called, a macro for each part.
func manForm(c *cli.Command) string {
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

// manMacro is an option with its argument.
func manMacro(it compat.Item) string {
	m := `Fl \-` + strings.ReplaceAll(it.Name, "-", `\-`)
	if it.Arg != "" {
		m += " Ns = Ns Ar " + it.Arg
	}
	if strings.HasSuffix(m, ":") { // no colon of a sentence
		m += `\&`
	}
	return m
}

// manOptions writes a list.
func manOptions(items []compat.Item) string {
	var b strings.Builder
	b.WriteString(".Bl -tag -width Ds\n")
	for _, it := range items {
		head := manMacro(it)
		if it.Short != "" {
			head = "Fl " + it.Short + " , " + head
		}
		fmt.Fprintf(&b, ".It %s\n%s\n", head, manText(strings.Join(it.Text, "\n\n"), ".br"))
	}
	return b.String() + ".El"
}

// manBody writes a command's texts and options. Those that the daemon has as well are only named.
func manBody(c *cli.Command) string {
	items := compat.Items(c.Flags)
	n := slices.IndexFunc(items, func(it compat.Item) bool { return it.Category != "" })
	parts := []string{manText(c.Usage, ".Pp")}
	if n < 0 {
		n = len(items)
	}
	parts = append(parts, manOptions(items[:n]))
	if n < len(items) {
		var names []string
		for _, it := range items[n:] {
			names = append(names, "."+manMacro(compat.Item{Name: it.Name}))
		}
		parts = append(parts, ".Pp\n"+items[n].Category+":\n"+strings.Join(names, " ,\n")+" .")
	}
	return strings.Join(append(parts, ".Pp\n"+manText(c.Description, ".Pp")), "\n")
}

var (
	longOption  = regexp.MustCompile(`(^|[ ("])-(-?[a-z][a-z0-9-]*|-( |$))`)
	sentenceEnd = regexp.MustCompile(`([.!?]\)?) +([A-Z{])`)
)

// manText writes paragraphs, with a macro between two: a sentence begins a line, and nothing in it is taken for a macro.
func manText(s, between string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = longOption.ReplaceAllStringFunc(s, func(m string) string { return strings.ReplaceAll(m, "-", `\-`) })
	var all []string
	for paragraph := range strings.SplitSeq(s, "\n\n") {
		var lines []string
		for sentence := range strings.SplitSeq(sentenceEnd.ReplaceAllString(strings.ReplaceAll(paragraph, "\n", " "), "$1\n$2"), "\n") {
			for _, l := range printable.Wrap(sentence, pageLine) {
				if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
					l = `\&` + l // so that it is not taken for a macro
				}
				lines = append(lines, l)
			}
		}
		all = append(all, strings.Join(lines, "\n"))
	}
	return strings.Join(all, "\n"+between+"\n")
}
