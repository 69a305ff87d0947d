// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// The prose is mdoc with the actions of text/template where something comes from a usage text.
//
//go:embed prose
var prose embed.FS

// page returns what makes the manual page name.
func page(name string) func(programs) ([]byte, error) {
	return func(all programs) ([]byte, error) {
		t, err := template.New(name).Funcs(template.FuncMap{
			"daemon":   func() *usage { return &all.daemon },
			"old":      func() *usage { return &all.old },
			"commands": func() []usage { return all.commands },
			"client":   func() *usage { return &usage{command: "socket_vmnet_client", synopsis: []string{all.client}} },
			"synopsis": synopsis,
			"options":  func(u *usage) string { return items(u.options(), u.isTable()) },
			"blocks":   func(u usage) string { return blocks(u, &all.daemon) },
			"text":     textLines,
			"last":     func(u usage) string { return u.command[strings.LastIndexByte(u.command, ' ')+1:] },
		}).ParseFS(prose, "prose/"+name)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		err = t.ExecuteTemplate(&b, name, nil)
		return fold(b.String()), err
	}
}

// pageLine is how long a line of text may be: mandoc finds fault with more than 80.
const pageLine = 79

// fold breaks the long lines of text, which is what are neither macros nor examples.
func fold(page string) []byte {
	var out strings.Builder
	literal := false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		literal = literal && line != ".Ed" || strings.HasPrefix(line, ".Bd")
		for !literal && len(line) > pageLine && line[0] != '.' {
			n := strings.LastIndexByte(line[:pageLine+1], ' ')
			if n < 0 {
				break
			}
			out.WriteString(line[:n] + "\n")
			line = noMacro(line[n+1:])
		}
		out.WriteString(line + "\n")
	}
	return []byte(out.String())
}

// noMacro keeps a line from being taken for a macro.
func noMacro(line string) string {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}

// synopsis writes the forms of a command, one or more macros for each.
func synopsis(u usage) (string, error) {
	var b strings.Builder
	name, sub, _ := strings.Cut(u.command, " ")
	for _, form := range u.synopsis {
		fmt.Fprintf(&b, ".Nm %s\n", name)
		if sub != "" {
			fmt.Fprintf(&b, ".Cm %s\n", sub)
		}
		parts, err := splitForm(form)
		if err != nil {
			return "", fmt.Errorf("%s: %w", u.command, err)
		}
		for _, p := range parts {
			fmt.Fprintf(&b, ".%s\n", part(p))
		}
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

var formPart = regexp.MustCompile(`^(\[[^][]+\](?:\.\.\.)?|[^][ ]+)(?: +|$)`)

// splitForm takes one form of a command apart: "[--json] [ARG]... SOCKET" has three parts.
func splitForm(form string) ([]string, error) {
	var parts []string
	for rest := form; rest != ""; {
		m := formPart.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("the usage line has brackets within brackets, or one alone: %q", rest)
		}
		parts, rest = append(parts, m[1]), rest[len(m[0]):]
	}
	return parts, nil
}

var enum = regexp.MustCompile(`^\(?[a-z0-9-]+(\|[a-z0-9-]+)+\)?$`)

// part writes one part of a synopsis, without the dot of the macro's line.
func part(p string) string {
	body, more := strings.CutSuffix(p, "...")
	if !strings.HasPrefix(body, "[") {
		switch {
		case strings.HasPrefix(body, "-"):
			body = flagMacro(body)
		case enum.MatchString(body), body == strings.ToLower(body):
			body = "Cm " + strings.Join(strings.Split(strings.Trim(body, "()"), "|"), " | ")
		default:
			body = "Ar " + body
		}
	} else {
		var words []string
		for w := range strings.FieldsSeq(strings.Trim(body, "[]")) {
			switch {
			case strings.HasPrefix(w, "-"):
				w = flagMacro(w)
			case w == "|" || w == "...":
			case len(words) > 0 && strings.HasPrefix(words[len(words)-1], "Ar "):
				// The argument goes on, as in NETWORK OPTION.
			default:
				w = "Ar " + w
			}
			words = append(words, w)
		}
		body = "Op " + strings.Join(words, " ")
	}
	if more {
		body += " ..."
	}
	return body
}

// flagMacro writes an option with its argument.
func flagMacro(option string) string {
	name, arg, has := strings.Cut(strings.TrimPrefix(option, "-"), "=")
	m := "Fl " + strings.ReplaceAll(name, "-", `\-`)
	if has {
		m += " Ns = Ns Ar " + arg
	}
	if strings.HasSuffix(m, ":") { // no colon of a sentence
		m += `\&`
	}
	return m
}

// items writes a list.
func items(list []item, table bool) string {
	var b strings.Builder
	b.WriteString(".Bl -tag -width Ds\n")
	for _, it := range list {
		head := "Cm " + strings.ReplaceAll(it.word, ", ", " , ")
		if it.long != "" {
			head = it.head()
			short, long, both := strings.Cut(head, ", ")
			head = flagMacro(short)
			if both {
				head += " , " + flagMacro(long)
			}
		}
		fmt.Fprintf(&b, ".It %s\n", head)
		for i, clause := range it.clauses(table) {
			if i > 0 {
				b.WriteString(".br\n")
			}
			b.WriteString(textLines(clause) + "\n")
		}
	}
	b.WriteString(".El")
	return b.String()
}

// blocks writes what a subcommand's text has behind the usage line. Options that the daemon has as well are only named.
func blocks(u usage, daemon *usage) string {
	var out []string
	for _, b := range u.blocks {
		if b.items == nil {
			out = append(out, ".Pp\n"+textLines(b.text))
			continue
		}
		own := slices.DeleteFunc(slices.Clone(b.items), func(it item) bool {
			return it.long != "help" && slices.ContainsFunc(daemon.options(), func(d item) bool { return reflect.DeepEqual(d, it) })
		})
		if len(own) == 0 {
			out = append(out, daemonOptions(b.items))
			continue
		}
		out = append(out, items(b.items, u.isTable()))
	}
	if u.exit != "" {
		out = append(out, ".Pp\n"+textLines("Exit code: "+u.exit+"."))
	}
	return strings.TrimPrefix(strings.Join(out, "\n"), ".Pp\n")
}

// daemonOptions names options that are explained elsewhere on the page.
func daemonOptions(list []item) string {
	var b strings.Builder
	for i, it := range list {
		b.WriteString("." + flagMacro("--"+it.long))
		if i < len(list)-1 {
			b.WriteString(" ,")
		} else {
			b.WriteString(" .")
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

var (
	longOption  = regexp.MustCompile(`(^|[ ("])-(-?[a-z][a-z0-9-]*|-( |$))`)
	sentenceEnd = regexp.MustCompile(`([.!?]\)?) +([A-Z{])`)
)

// textLines writes a paragraph as lines of text: a sentence begins a line, and nothing in it is taken for a macro.
func textLines(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = longOption.ReplaceAllStringFunc(s, func(m string) string { return strings.ReplaceAll(m, "-", `\-`) })
	s = sentenceEnd.ReplaceAllString(s, "$1\n$2")
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = noMacro(l)
	}
	return strings.Join(lines, "\n")
}
