// SPDX-License-Identifier: Apache-2.0

// Package manual makes the manual pages and the completions for bash and zsh of a tree of commands:
//
//	docs/man/socket_vmnet2.8, socket_vmnet.8
//	etc/completions/socket_vmnet2.bash, _socket_vmnet2
//
// The prose around options and commands is in the directory prose, the shell code in the directory shell. A test of
// cmd/socket_vmnet2, which has the tree, writes the files and finds those that are not current.
package manual

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"strings"
	"text/template"

	"github.com/urfave/cli/v2"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// Both are text/template: prose of mdoc, and shell code that gets the tables.
//
//go:embed prose all:shell
var templates embed.FS

// A Tree is what the programs take.
type Tree struct {
	Old, Daemon []cli.Flag     // of socket_vmnet, and of socket_vmnet2 without a command
	Commands    []*cli.Command // of socket_vmnet2
}

// Files are all files: their contents by their paths below the root.
func Files(tree Tree) (map[string]string, error) {
	all := tablesOf(tree)
	files := map[string]string{}
	for name, in := range map[string]string{
		"docs/man/socket_vmnet2.8": "prose", "docs/man/socket_vmnet.8": "prose",
		"etc/completions/socket_vmnet2.bash": "shell", "etc/completions/_socket_vmnet2": "shell",
	} {
		base := path.Base(name)
		t, err := template.New(base).Funcs(functions).ParseFS(templates, in+"/"+base)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, all); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = b.String()
	}
	return files, nil
}

// functions are those of the templates.
var functions = template.FuncMap{
	"form": form, "options": func(flags []cli.Flag) string { return options(compat.Items(flags)) }, "body": body,
	"quote": quote, "join": strings.Join,
}

// quote makes one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// tables are what the shells have to know beside the Tree.
type tables struct {
	Tree
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
}

// tablesOf makes the tables.
func tablesOf(tree Tree) *tables {
	t := &tables{Tree: tree, Values: map[string][]string{}}
	for _, c := range tree.Commands {
		t.Names = append(t.Names, c.Name)
		summary, _, _ := strings.Cut(strings.ReplaceAll(c.Usage, "\n", " "), ". ")
		summary, _, _ = strings.Cut(summary, ": ")
		t.Texts = append(t.Texts, c.Name+":"+summary)
	}
	t.take(compat.Program, tree.Daemon, "SOCKET")
	t.take("socket_vmnet", tree.Old, "SOCKET")
	for _, c := range tree.Commands {
		operands := c.ArgsUsage
		if c.Name == "help" { // its COMMAND is none of the system's
			operands = strings.Join(t.Names, "|")
		}
		t.take(compat.Program+" "+c.Name, c.Flags, operands)
	}
	return t
}

// take notes what something takes.
func (t *tables) take(name string, flags []cli.Flag, operands string) {
	k := taker{Name: name, Operands: operandKinds(operands)}
	for _, it := range compat.Items(flags) {
		word := "--" + it.Name
		if it.Arg != "" {
			kind := kindOf(it.Arg)
			t.Values[kind] = append(t.Values[kind], quote(name+" "+word))
			if it.Short != "" {
				t.Values[kind] = append(t.Values[kind], quote(name+" -"+it.Short))
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
	"SOCKET": ":file", "FILE": ":file", "PIDFILE": ":file", "PATH": ":file",
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
// out; ":daemon" means that a command line of the daemon follows.
func operandKinds(argsUsage string) (all []string) {
	for word := range strings.FieldsSeq(argsUsage) {
		switch kind := kindOf(strings.Trim(strings.TrimSuffix(word, "..."), "[]")); {
		case word == "[--":
			return append(all, ":option --", ":daemon")
		case kind != ":none" || word[0] != '[':
			all = append(all, kind)
		}
	}
	return all
}
