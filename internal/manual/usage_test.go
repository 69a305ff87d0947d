// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sample = `Usage: prog do start|stop [--json] [--dir=DIR]
               [-- DAEMON OPTION... SOCKET]
       prog do status NAME
Does what it is told. The second sentence
goes on.

start                                  begin
stop                                   end, after all the things that there are to say of it have been said, and there are quite
                                       many of them

The options:
--json                                 print JSON
                                       not text
-d, --dir=DIR                          where it is (default:
                                       "/tmp")
-h, --help                             print this text and end

Something else.

Exit code: 0 yes, 1 no

The first argument may also be a command, each with a --help of its own: a, b

Version: v1
`

func TestParseUsage(t *testing.T) {
	u, err := parseUsage("prog do", sample)
	require.NoError(t, err)
	assert.Equal(t, []string{"start|stop [--json] [--dir=DIR] [-- DAEMON OPTION... SOCKET]", "status NAME"}, u.synopsis)
	assert.Equal(t, "0 yes, 1 no", u.exit)
	assert.Equal(t, []string{"a", "b"}, u.commands)
	require.Len(t, u.blocks, 5)
	assert.Equal(t, "Does what it is told. The second sentence goes on.", u.blocks[0].text)
	assert.Equal(t, "start", u.blocks[1].items[0].head())
	assert.Len(t, u.blocks[1].items[1].clauses(true), 1, "the line was full")
	assert.Equal(t, "The options:", u.blocks[2].text)
	list := u.options()
	require.Len(t, list, 3)
	assert.Equal(t, "-d, --dir=DIR", list[1].head())
	assert.Equal(t, []string{"print JSON", "not text"}, list[0].clauses(true))
	assert.Equal(t, []string{"print JSON not text"}, list[0].clauses(false))
	assert.Equal(t, "Something else.", u.blocks[4].text)
	assert.Equal(t, []string{"start stop status", ":option -- :none", ":daemon"}, operandKinds(u.synopsis))
}

// TestUsageErrors: a text that is not of the form is refused, and the error says which line it is.
func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"another command", "Usage: other [--a]\n", "line 1 "},
		{"no usage", "Help!\n", "line 1 "},
		{"an option without text", "Usage: prog X\n\n--json\n", "line 3 "},
		{"a text in another column", "Usage: prog X\nText.\n\n--json   print JSON\n", "line 4 "},
		{"an argument behind a blank", "Usage: prog X\n\n--dir DIR                              where\n", "line 3 "},
		{"text of no option", "Usage: prog X\nText.\n                                       more\n", "line 3 "},
		{"an indented line", "Usage: prog X\n\n  text\n", "line 3 "},
		{"an option in capitals", "Usage: prog X\n\n--DIR                                  where\n", "line 3 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseUsage("prog", c.text)
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.want+"of the usage text")
		})
	}
}

func TestSynopsisErrors(t *testing.T) {
	for _, form := range []string{"[--a [--b]] X", "[--a", "--a] X"} {
		_, err := synopsis(usage{command: "prog", synopsis: []string{form}})
		assert.ErrorContains(t, err, "brackets", form)
	}
}

func TestKindOf(t *testing.T) {
	for arg, want := range map[string]string{
		"(host|shared|bridged)": "host shared bridged", "host|shared": "host shared", "DIR|none": ":dir none", "DIR": ":dir",
		"SOCKET": ":file", "IP": ":none", "NAME=IP": ":none", "PREFIX::": ":none", "PROTO:PORT=IP:PORT": ":none", "IF": ":interface", "install": "install",
	} {
		assert.Equal(t, want, kindOf(arg), arg)
	}
}

func TestTextLines(t *testing.T) {
	assert.Equal(t, "One.\nTwo with \\-\\-json, and a\\eb.", textLines(`One. Two with --json, and a\b.`))
	assert.Equal(t, `\&.hidden`, textLines(".hidden"))
	long := "a word that is repeated again and again and again and again and again and again .with a dot"
	assert.Equal(t, "a word that is repeated again and again and again and again and again and again\n\\&.with a dot\n", string(fold(long+"\n")))
	assert.Equal(t, ".Xr "+long+"\n", string(fold(".Xr "+long+"\n")), "a macro is one line")
}
