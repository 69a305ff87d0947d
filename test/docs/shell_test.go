// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A block is a fenced block of a page.
type block struct {
	page     string
	line     int // of its first line
	language string
	text     string
}

// fence begins or ends a block, which may be indented.
var fence = regexp.MustCompile("^( *)```+ *([A-Za-z0-9_-]*)")

// blocksOf are those of a page.
func blocksOf(page, text string) (all []block) {
	var b *block
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && b == nil:
			b, indent = &block{page: page, line: i + 2, language: m[2]}, m[1]
		case m != nil:
			all = append(all, *b)
			b = nil
		case b != nil:
			b.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	return all
}

// isShell tells whether the block is commands. One without a language, or with text, is if it begins with a program that is known:
// there are drawings too.
func (b block) isShell() bool {
	switch b.language {
	case "sh", "bash", "console", "shell":
		return true
	case "", "text":
		commands, err := b.commands()
		return err == nil && len(commands) > 0 && known(commands[0].program()) && !strings.Contains(b.text, "[--")
	}
	return false
}

// A command is a simple command of a block.
type command struct {
	page  string
	line  int
	words []string // without sudo, assignments and redirections
	sudo  bool
}

func (c command) String() string  { return strings.Join(c.words, " ") }
func (c command) program() string { return filepath.Base(c.words[0]) }

// args are the words behind the program, without the dots that stand for the reader's own.
func (c command) args() []string {
	return slices.DeleteFunc(slices.Clone(c.words[1:]), func(w string) bool { return w == "..." || w == "…" })
}

// commands are those of the block, in order.
func (b block) commands() (all []command, err error) {
	text := b.text
	if b.language == "console" {
		text = prompted(text)
	}
	lex := &lexer{rest: text, line: b.line}
	c := command{page: b.page, line: b.line}
	skip := 0
	end := func() {
		if w := prefixes(&c); len(w) > 0 {
			c.words = w
			all = append(all, c)
		}
		c, skip = command{page: b.page}, 0
	}
	for {
		w, kind := lex.next()
		switch kind {
		case lexEnd:
			end()
			return all, lex.err
		case lexBreak:
			end()
		case lexRedirect:
			skip = 1
		default:
			if skip > 0 {
				skip--
				continue
			}
			if len(c.words) == 0 {
				c.line = lex.line
			}
			c.words = append(c.words, strings.ReplaceAll(w, "$(brew --prefix)", "/opt/homebrew"))
		}
	}
}

// prompted keeps the lines behind a prompt, with what continues them, and leaves the others empty: they are output.
func prompted(text string) string {
	lines := strings.Split(text, "\n")
	goesOn := false
	for i, l := range lines {
		rest, ok := strings.CutPrefix(l, "$ ")
		switch {
		case ok:
			lines[i] = rest
		case !goesOn:
			lines[i] = ""
		}
		goesOn = strings.HasSuffix(lines[i], `\`)
	}
	return strings.Join(lines, "\n")
}

// assignment is NAME=value in front of a command.
var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// prefixes takes off what stands in front of a program: keywords, assignments, sudo and its like. A loop's head is no command.
func prefixes(c *command) []string {
	w := c.words
	for len(w) > 0 {
		switch {
		case slices.Contains([]string{"until", "while", "if", "do", "then", "else", "!", "{", "time", "nice", "nohup", "exec", "env"}, w[0]), assignment.MatchString(w[0]):
			w = w[1:]
		case slices.Contains([]string{"for", "done", "fi", "}", "[", "wait", "case", "esac", "true"}, w[0]):
			return nil
		case w[0] == "sudo":
			c.sudo = true
			w = w[1:]
			for len(w) > 0 && strings.HasPrefix(w[0], "-") {
				w = w[1:]
			}
		default:
			return w
		}
	}
	return nil
}

type lexKind int

const (
	lexWord lexKind = iota
	lexBreak
	lexRedirect
	lexEnd
)

// A lexer takes shell text apart into words, as far as pages need it.
type lexer struct {
	rest string
	line int
	err  error
}

// redirect is > and its like, with the descriptor in front.
var redirect = regexp.MustCompile(`^[0-9]*(>>|>&|<&|<|>)([0-9-]*)`)

// next is the next word. Substitutions stay in it as they are.
func (l *lexer) next() (word string, kind lexKind) {
	for {
		switch {
		case l.rest == "":
			return "", lexEnd
		case strings.HasPrefix(l.rest, "\\\n"):
			l.rest = l.rest[2:]
			l.line++
		case l.rest[0] == ' ' || l.rest[0] == '\t':
			l.rest = l.rest[1:]
		case l.rest[0] == '#':
			_, after, _ := strings.Cut(l.rest, "\n")
			l.rest = "\n" + after
		case l.rest[0] == '\n':
			l.rest = l.rest[1:]
			l.line++
			return "", lexBreak
		case strings.ContainsRune(";&|()", rune(l.rest[0])):
			l.rest = l.rest[1:]
			return "", lexBreak
		default:
			if m := redirect.FindStringSubmatch(l.rest); m != nil {
				l.rest = l.rest[len(m[0]):]
				if m[2] != "" {
					continue
				}
				return "", lexRedirect
			}
			return l.word(), lexWord
		}
	}
}

// word reads one, which begins here.
func (l *lexer) word() string {
	var b strings.Builder
	for l.rest != "" {
		switch c := l.rest[0]; {
		case strings.IndexByte(" \t\n;&|()<>", c) >= 0:
			return b.String()
		case strings.HasPrefix(l.rest, "\\\n"):
			return b.String()
		case c == '\\' && len(l.rest) > 1:
			b.WriteByte(l.rest[1])
			l.rest = l.rest[2:]
		case c == '\'' || c == '"':
			inside, after, ok := strings.Cut(l.rest[1:], string(c))
			if !ok {
				l.err = fmt.Errorf("line %d: a quote is not closed", l.line)
			}
			l.line += strings.Count(inside, "\n")
			b.WriteString(inside)
			l.rest = after
		case strings.HasPrefix(l.rest, "$("):
			n := substitution(l.rest)
			b.WriteString(l.rest[:n])
			l.rest = l.rest[n:]
		default:
			b.WriteByte(c)
			l.rest = l.rest[1:]
		}
	}
	return b.String()
}

// substitution is the length of the $(...) that text begins with.
func substitution(text string) int {
	depth := 0
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// TestShell: the lexer does what a shell does with what pages have.
func TestShell(t *testing.T) {
	for name, c := range map[string]struct {
		language, text string
		want           []string
	}{
		"comment":      {"sh", "make # all\n# nothing\ngit x#y\n", []string{"make", "git x#y"}},
		"continued":    {"sh", "a b \\\n  c\n", []string{"a b c"}},
		"list":         {"sh", "a; b && c | d & e\n", []string{"a", "b", "c", "d", "e"}},
		"quotes":       {"sh", "a 'b ; c' \"d & e\"\n", []string{"a b ; c d & e"}},
		"redirections": {"sh", "a >out 2>&1 b <in\n", []string{"a b"}},
		"prefixes":     {"sh", "X=1 sudo -n a; until a; do b; done; for i in 1 2; do c; done\n", []string{"a", "a", "b", "c"}},
		"substitution": {"sh", "a $(b; c) d\n", []string{"a $(b; c) d"}},
		"prompt":       {"console", "$ a \\\n  b\noutput\n$ c\n", []string{"a b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := block{language: c.language, text: c.text}.commands()
			assert.NoError(t, err)
			var got []string
			for _, x := range all {
				got = append(got, x.String())
			}
			assert.Equal(t, c.want, got)
		})
	}
	_, err := block{language: "sh", text: "a 'b\n"}.commands()
	assert.Error(t, err)
}
