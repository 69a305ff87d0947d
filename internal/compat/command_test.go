// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"net"
	"os"
	"slices"
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
		&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help and exit"},
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
			if strings.Contains(c.args, "-c") {
				assert.Equal(t, "c", cli.NewContext(nil, set, nil).String("checked"), "the last one")
			}
		})
	}
}

// TestSuggestions: the nearest option is named, as it would be written, and only one that is near.
func TestSuggestions(t *testing.T) {
	for line, want := range map[string]string{
		"--txet=a":       "unknown option --txet: did you mean --text?",
		"--CHECKED":      "unknown option --CHECKED: did you mean --checked?",
		"-on":            "unknown option -o: did you mean --on?",
		"-x":             "unknown option -x",
		"--elsewhere":    "unknown option --elsewhere",
		"--secert":       "unknown option --secert", // it is hidden
		"--checked-more": "unknown option --checked-more",
	} {
		all, _ := someFlags()
		_, err := ParseCommand(&cli.Command{Name: "do", Flags: all}, []string{line})
		require.EqualError(t, err, want)
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
	const head, own, others = "Usage: socket_vmnet2 do [OPTION]... SOCKET\nDoes it.\n\n", "\nThose of others:\n", "\nExit code: 0\n"
	for width, want := range map[int]string{
		0: head + `  -t, --text=FILE      a text
                       of two remarks
  --on                 a switch
  -c, --checked=(a|b)  no x and more and more and more and more and more and
                       more and more and more and more and more
  -h, --help           show this help and exit
  --version            ` + `
` + own + `  --far=N              one of others
` + others,
		30: strings.Replace(head, "... SOCKET", "...\nSOCKET", 1) + `  -t, --text=FILE
            a text
            of two remarks
  --on      a switch
  -c, --checked=(a|b)
            no x and more and more and
            more and more and more and
            more and more and more and
            more and more
  -h, --help
            show this help and exit
  --version
            ` + `
` + own + `  --far=N   one of others
` + others,
	} {
		got := Usage(&cli.Command{Name: "do", Usage: "Does\nit.", ArgsUsage: "SOCKET", Flags: all, Description: "Exit code: 0"}, width)
		assert.Equal(t, want, got, "%d columns: the least is 40", width)
	}
}

// TestUnknownCommand: a lone bare word starts a daemon only where a socket of that name is.
func TestUnknownCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	ln, err := net.Listen("unix", "here")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	const at = "A socket of that name is ./"
	tests := []struct {
		name, line string
		want       string // of the refusal; empty: none
	}{
		{"behind options", "--backend=usernet --vmnet-gateway=10.1.2.1 statsu", `unknown command "statsu": did you mean status? ` + at + "statsu"},
		{"with what the daemon does not know", "kcik 3 --json", `unknown command "kcik": did you mean kick? ` + at + "kcik"},
		{"in capitals", "STATUS", `unknown command "STATUS": did you mean status? ` + at + "STATUS"},
		{"nothing like it", "list", `unknown command "list". ` + at + "list"},
		{"a command behind an option", "--vmnet-mode=host status", "status is a command as the first argument only; a socket of that name is ./status"},
		{"a file", "file", `unknown command "file". ` + at + "file"},
		{"a socket", "here", ""},
		{"a path", "./statsu", ""},
		{"no daemon", "--list-interfaces statsu", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, code, out, errs := parseWith(New, tt.line)
			if tt.want == "" {
				assert.NotNil(t, cfg, errs)
				return
			}
			assert.Nil(t, cfg)
			assert.Equal(t, 1, code)
			assert.Equal(t, "ERROR| "+tt.want+seeHelp+"\n", errs)
			assert.Empty(t, out)
		})
	}
	cfg, _, _, errs := parseWith(Old, "statsu")
	assert.NotNil(t, cfg, "the old program has no commands: %s", errs)
}

// parseWith is Parse where there are subcommands.
func parseWith(p Personality, line string) (cfg *Config, code int, stdout, stderr string) {
	var out, errs strings.Builder
	env := IO{Stdout: &out, Stderr: &errs, LookupEnv: func(string) (string, bool) { return "", false }, Commands: []Item{
		{Name: "exec", Text: []string{"run"}}, {Name: "kick", Text: []string{"disconnect"}}, {Name: "status", Text: []string{"show"}},
	}}
	cfg, code = Parse(p, append([]string{"prog"}, strings.Fields(line)...), env)
	return cfg, code, out.String(), errs.String()
}

func TestSubcommand(t *testing.T) {
	names := []string{"selftest", "status"}
	tests := []struct {
		name string
		argv []string
		want string
		args []string
	}{
		{"subcommand", []string{"socket_vmnet2", "selftest"}, "selftest", []string{}},
		{"a name that begins alike", []string{"socket_vmnet2-beta", "status"}, "status", []string{}},
		{"the old name", []string{"socket_vmnet", "selftest"}, "", nil},
		{"a socket's path", []string{"socket_vmnet2", "./selftest"}, "", nil},
		{"behind an option", []string{"socket_vmnet2", "--vmnet-mode=host", "selftest"}, "", nil},
		{"empty", []string{"socket_vmnet2", ""}, "", nil},
		{"no arguments", []string{"socket_vmnet2"}, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, args := Subcommand(tt.argv, names)
			assert.Equal(t, tt.want, name)
			assert.Equal(t, tt.args, args)
		})
	}
}

// networkConfig reads args as a subcommand does.
func networkConfig(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	n := NewNetwork()
	set, err := ParseFlags(n.Flags(), args, false)
	if err != nil {
		return nil, err
	}
	return n.Config(cli.NewContext(nil, set, nil), IO{LookupEnv: func(string) (string, bool) { return "", false }})
}

// TestNetworkConfigIsTheDaemons: the same options mean the same network, and the same complaints.
func TestNetworkConfigIsTheDaemons(t *testing.T) {
	for _, line := range []string{
		"",
		"--backend=usernet --vmnet-mode host",
		"--vmnet-mode=bridged --vmnet-interface=en0 --backend=vmnet",
		"--vmnet-gateway=10.1.2.1 --vmnet-mask=255.255.0.0 --vmnet-dhcp-end=10.1.2.9 --vmnet-disable-dhcp",
		"--vmnet-nat66-prefix=fd00:1:: --vmnet-interface-id=6e5c5a3c-0000-4000-8000-000000000001",
		"--dns-record=a.b=1.2.3.4 --dns-record=c=5.6.7.8 --vmnet-gateway=10.1.2.1 --vmnet-reserve=5a:94:ef:00:00:01=10.1.2.7",
		"--isolate --offload --vmnet-api=network --vmnet-mtu=4000 --backend=vmnet",
		"--vmnet-mode=x",
		"--vmnet-mode=bridged",
		"--vmnet-mask=255.0.0.0",
		"--vmnet-mtu=1",
		"--dns-record=a",
		"--vmnet-gateway=10.1.2.1 --vmnet-dhcp-end=10.9.9.9",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			daemon := parse(t, New, slices.Concat([]string{"socket_vmnet2"}, args, []string{"/s"}))
			cfg, err := networkConfig(t, args...)
			if daemon.cfg == nil {
				require.Error(t, err)
				assert.Contains(t, daemon.stderr, escape(New.lines(err)[0]))
				return
			}
			require.NoError(t, err)
			daemon.cfg.SocketPath = ""
			assert.Equal(t, daemon.cfg, cfg)
		})
	}
}
