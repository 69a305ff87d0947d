// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

// someFlags are one of each kind. get returns what was stored.
func someFlags() (all []cli.Flag, get func() string) {
	var text, checked string
	var on bool
	all = []cli.Flag{
		&cli.StringFlag{Name: "text", Aliases: []string{"t"}, Usage: "`FILE` a text\nof two remarks", Value: "default", Destination: &text},
		&cli.BoolFlag{Name: "on", Usage: "a switch", Destination: &on},
		Checked("checked", "`(a|b)` no x "+strings.Repeat("and more ", 10), func(v string) error {
			if v == "x" {
				return errors.New("--checked=x is refused")
			}
			checked += v
			return nil
		}, "c"),
		&cli.StringFlag{Name: "far", Usage: "`N` one of others", Category: "Those of others"},
		&cli.StringFlag{Name: "secret", Hidden: true},
		&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "print this text and end"},
		&cli.BoolFlag{Name: "version"},
	}
	return all, func() string {
		if on {
			return text + " " + checked + " on"
		}
		return text + " " + checked
	}
}

func TestParseFlags(t *testing.T) {
	for _, c := range []struct{ args, want, operands, err string }{
		{"", "default ", "", ""},
		{"--text=a b --on", "a  on", "b", ""},
		{"b --te a -- --on", "a ", "b --on", ""},
		{"-ta -cb --checked c", "a bc", "", ""},
		{"--checked=a --checked x --help", "", "", "--checked=x is refused"},
		{"--on --help --checked=x", "", "", "help"},
		{"--ver --nix", "", "", "version"},
		{"--on=x", "", "", "option --on takes no argument"},
		{"--text", "", "", "option --text needs an argument"},
		{"--nix", "", "", "unknown option --nix"},
	} {
		t.Run(c.args, func(t *testing.T) {
			all, get := someFlags()
			set, err := ParseFlags(all, strings.Fields(c.args), false)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, get())
			assert.Equal(t, strings.Fields(c.operands), set.Args())
			assert.Equal(t, strings.Contains(c.args, "-t"), cli.NewContext(nil, set, nil).IsSet("text"))
		})
	}
}

func TestOperands(t *testing.T) {
	for _, c := range []struct{ usage, operands, err string }{
		{"", "", ""},
		{"", "x", `do takes options only, not "x"`},
		{"SOCKET", "", "no SOCKET"},
		{"SOCKET", "x", ""},
		{"SOCKET", "x y", `do takes SOCKET, not "y" as well`},
		{"[SOCKET]", "", ""},
		{"[SOCKET]", "''", "SOCKET is empty"},
		{"[LEVEL] [SOCKET]", "a b c", `do takes [LEVEL] [SOCKET], not "c" as well`},
		{"CLIENT... [SOCKET]", "", "no CLIENT"},
		{"CLIENT... [SOCKET]", "a b c", ""},
		{"SOCKET -- COMMAND [ARG]...", "x", "no COMMAND"},
		{"SOCKET -- COMMAND [ARG]...", "x -- y ''", ""},
		{"start|stop [-- DAEMON OPTION... SOCKET]", "", "what is do to do? One of start, stop"},
		{"start|stop [-- DAEMON OPTION... SOCKET]", "start --a b", ""},
	} {
		t.Run(c.usage+" "+c.operands, func(t *testing.T) {
			operands := strings.Fields(c.operands)
			for i, o := range operands {
				operands[i] = strings.Trim(o, "'")
			}
			err := checkOperands(&cli.Command{Name: "do", ArgsUsage: c.usage}, operands)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.err)
			}
		})
	}
}

func TestCommandUsage(t *testing.T) {
	all, _ := someFlags()
	assert.Equal(t, `Usage: socket_vmnet2 do [OPTION]... SOCKET
Does it.

-t, --text=FILE                        a text
                                       of two remarks
--on                                   a switch
-c, --checked=(a|b)                    no x and more and more and more and more and more and more and more and more and
                                       more and more
-h, --help                             print this text and end
--version                              `+`

Those of others:
--far=N                                one of others

Exit code: 0
`, Usage(&cli.Command{Name: "do", Usage: "Does it.", ArgsUsage: "SOCKET", Flags: all, Description: "Exit code: 0"}))
}
