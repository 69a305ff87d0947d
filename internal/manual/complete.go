// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// The shell code is a template too: it gets the tables.
//
//go:embed all:shell
var shell embed.FS

// tables are what the shells have to know.
type tables struct {
	Commands []entry   // socket_vmnet2's subcommands
	Options  []command // of every command
	Values   []value   // what options take
	Operands []operands
}

// An entry is a word that is offered, and what is said of it. What takes a value ends with an equals sign.
type entry struct{ Word, Text string }

// A command has options; its name may be two words.
type command struct {
	Name    string
	Entries []entry
}

// A value is what several options take: words, and kinds of things with a colon in front.
type value struct {
	Keys []string // "command --option"
	Kind string
}

// operands are what a command takes behind its options, one after the other: as for a value.
type operands struct {
	Name  string
	Kinds []string
}

// completion returns what makes the file name for a shell.
func completion(name string) func(programs) ([]byte, error) {
	return func(all programs) ([]byte, error) {
		t, err := template.New(name).Funcs(template.FuncMap{
			"quote": quote,
			"words": func(list []entry) string {
				var words []string
				for _, e := range list {
					words = append(words, e.Word)
				}
				return strings.Join(words, " ")
			},
			"patterns": func(keys []string) string {
				var quoted []string
				for _, k := range keys {
					quoted = append(quoted, quote(k))
				}
				return strings.Join(quoted, " | ")
			},
		}).ParseFS(shell, "shell/"+name)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err = t.ExecuteTemplate(&b, name, tablesOf(all))
		return b.Bytes(), err
	}
}

// quote makes one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// tablesOf makes the tables.
func tablesOf(all programs) tables {
	var t tables
	for _, u := range all.commands {
		text := ""
		if len(u.blocks) > 0 {
			text, _, _ = strings.Cut(u.blocks[0].text, ". ")
			text, _, _ = strings.Cut(text, ": ")
		}
		t.Commands = append(t.Commands, entry{strings.TrimPrefix(u.command, "socket_vmnet2 "), text})
	}
	for _, u := range append([]usage{all.daemon, all.old}, all.commands...) {
		c := command{Name: u.command}
		for _, it := range u.options() {
			e := entry{"--" + it.long, it.clauses(u.isTable())[0]}
			if it.arg != "" {
				e.Word += "="
				kind := kindOf(it.arg)
				if m := oneOf.FindStringSubmatch(it.text[0]); m != nil && kind == ":none" {
					kind = strings.NewReplacer(", ", " ", " or ", " ").Replace(m[1])
				}
				t.value(kind, u.command+" --"+it.long)
				if it.short != "" {
					t.value(kind, u.command+" -"+it.short)
				}
			}
			c.Entries = append(c.Entries, e)
		}
		t.Options = append(t.Options, c)
		kinds := operandKinds(u.synopsis)
		if u.command == "socket_vmnet2 help" { // its COMMAND is none of the system's
			kinds = []string{strings.Join(all.daemon.commands, " ")}
		}
		t.Operands = append(t.Operands, operands{u.command, kinds})
	}
	return t
}

// oneOf finds the values of an option that names them in its text: "shared, host or bridged (default: shared)".
var oneOf = regexp.MustCompile(`^((?:[a-z0-9]+, )*[a-z0-9]+ or [a-z0-9]+)(?: \(|$)`)

// value notes that an option takes something.
func (t *tables) value(kind, key string) {
	for i := range t.Values {
		if t.Values[i].Kind == kind {
			t.Values[i].Keys = append(t.Values[i].Keys, key)
			return
		}
	}
	t.Values = append(t.Values, value{[]string{key}, kind})
}

// kinds are what arguments are, by their names in usage texts.
var kinds = map[string]string{
	"SOCKET": ":file", "FILE": ":file", "PIDFILE": ":file", "PATH": ":file",
	"DIR": ":dir", "USER": ":user", "UID": ":user", "GROUP": ":group", "INTERFACE": ":interface", "IF": ":interface",
	"COMMAND": ":command",
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

// operandKinds tells what the operands of a command may be, from its forms. "--" stands where it is needed, with ":option" where
// it may also be left out; ":daemon" means that a command line of the daemon follows.
func operandKinds(synopsis []string) []string {
	var all []string
	for _, form := range synopsis {
		parts, err := splitForm(form)
		if err != nil {
			continue // has been found when the page was made
		}
		n := 0
		for _, p := range parts {
			p = strings.TrimSuffix(p, "...")
			inner := strings.Trim(p, "[]")
			kind := kindOf(inner)
			switch {
			case strings.HasPrefix(inner, "-- DAEMON"):
				all = append(all[:n], ":option --", ":daemon")
				n = len(all)
				continue
			case inner == "--":
				kind = "--"
			case strings.HasPrefix(inner, "-"), strings.Contains(inner, "OPTION"), kind == ":none" && p != inner:
				continue
			}
			if n == len(all) {
				all = append(all, kind)
			} else if !slices.Contains(strings.Fields(all[n]), kind) {
				all[n] += " " + kind
			}
			n++
		}
	}
	return all
}
