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
