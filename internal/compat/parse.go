// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// IO is what a command line acts on besides argv.
type IO struct {
	Stdout, Stderr io.Writer
	// LookupEnv is os.LookupEnv. POSIXLY_CORRECT and DEBUG are looked up, only their presence matters.
	LookupEnv func(key string) (string, bool)
	// Commands are the subcommands, each with a line about it, that the usage text of the new program names, and in whose place a
	// SOCKET without a slash is not taken. The old program has none.
	Commands []Item
	// Width is how long the lines of the new program's usage texts may be; 0: that is not known.
	Width int
}

// Parse reads argv, its first element being the program's name. It returns either a Config or, after --help, --version or a
// bad command line, nil and the exit code.
func Parse(p Personality, argv []string, env IO) (cfg *Config, code int) {
	argv0 := "socket_vmnet"
	if len(argv) > 0 {
		argv0, argv = argv[0], argv[1:]
	}
	var what string
	if p != New {
		what, env.Commands = ofNew(argv0, argv, env.Commands), nil
	}
	cfg, err := read(p, argv, env)
	if what != "" && (err != nil || what[0] != '-') { // else it is the value of an option
		_, _ = fmt.Fprintf(env.Stderr, "WARN | this copy is called %s, so it behaves as socket_vmnet; call it socket_vmnet2 for %s\n", escape(filepath.Base(argv0)), what)
	}
	switch {
	case err == nil:
		return cfg, 0
	case errors.Is(err, ErrHelp):
		_, _ = io.WriteString(env.Stdout, usage(p, argv0, env))
		return nil, 0
	case errors.Is(err, ErrVersion):
		_, _ = fmt.Fprintln(env.Stdout, Version)
		return nil, 0
	}
	plain := errors.As(err, new(plainError))
	if p == New && !plain {
		err = SeeHelp(err, "")
	}
	if !errors.Is(err, errSilent) {
		_, _ = fmt.Fprintf(env.Stderr, "ERROR| %s\n", escape(p.lines(err)[0]))
	}
	if p == Old && !plain { // to standard output, even after an error
		_, _ = io.WriteString(env.Stdout, usage(p, argv0, env))
	}
	return nil, 1
}

// ofNew is a command or an option in args, which are a copy's under a name of its own, that only the new program has; empty if there is
// none. Of the names that programs here have nothing is said: they are called so on purpose.
func ofNew(argv0 string, args []string, commands []Item) string {
	if base := filepath.Base(argv0); argv0 == "" || base == "socket_vmnet" || base == "socket_vmnet_client" {
		return ""
	}
	if len(args) > 0 && slices.ContainsFunc(commands, func(c Item) bool { return c.Name == args[0] }) {
		return args[0]
	}
	for _, a := range args {
		option, _, _ := strings.Cut(a, "=")
		if option == "--" { // operands follow
			break
		}
		if slices.ContainsFunc(Flags(New)[len(Flags(Old)):], func(f cli.Flag) bool { return "--"+f.Names()[0] == option }) {
			return option
		}
	}
	return ""
}

// read takes argv without the program's name through scanner and checks.
func read(p Personality, argv []string, env IO) (*Config, error) {
	_, posixly := env.LookupEnv("POSIXLY_CORRECT")
	s := newSettings(p)
	set, err := ParseFlags(s.flags(p), argv, posixly)
	switch {
	case err != nil, set.NArg() == 1, set.NArg() == 0 && s.ListInterfaces:
	case p == Old:
		err = errSilent
	case set.NArg() == 0:
		err = errors.New("no SOCKET: give the path of the socket to serve, such as /tmp/vmnet.sock")
	default:
		err = fmt.Errorf("two SOCKETs given: %s, %s", set.Arg(0), set.Arg(1))
	}
	if err != nil {
		return nil, explain(p, err, argv, env)
	}
	s.SocketPath = set.Arg(0)
	_, s.Debug = env.LookupEnv("DEBUG")
	if s.ListInterfaces {
		return &s.Config, nil
	}
	if err := checkWord(s.SocketPath, env.Commands); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	s.given = func(option string) bool { return given[option] }
	if err := s.finish(); err != nil {
		for _, w := range s.Warnings {
			_, _ = fmt.Fprintf(env.Stderr, "WARN | %s\n", w)
		}
		return nil, err
	}
	return &s.Config, nil
}

// explain words an error about argv for p: a mistyped subcommand has arguments that the daemon does not know.
func explain(p Personality, err error, argv []string, env IO) error {
	if p == Old || errors.Is(err, ErrHelp) || errors.Is(err, ErrVersion) {
		return err
	}
	if len(argv) > 0 && nearest(argv[0], env.Commands) != "" {
		if other := checkWord(argv[0], env.Commands); other != nil {
			return other
		}
	}
	return suggest(err, Flags(p))
}
