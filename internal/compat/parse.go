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
	// Commands are the subcommands that the usage text of the new program names, and in whose place a SOCKET without a slash is
	// not taken. The old program has none.
	Commands []string
}

// Parse reads argv, its first element being the program's name. It returns either a Config or, after --help, --version or a
// bad command line, nil and the exit code.
func Parse(p Personality, argv []string, env IO) (cfg *Config, code int) {
	argv0 := "socket_vmnet"
	if len(argv) > 0 {
		argv0, argv = argv[0], argv[1:]
	}
	if p != New {
		if what := ofNew(argv0, argv, env.Commands); what != "" {
			_, _ = fmt.Fprintf(env.Stderr, "WARN | this copy is called %s, so it behaves as socket_vmnet; call it socket_vmnet2 for %s\n", escape(filepath.Base(argv0)), what)
		}
		env.Commands = nil
	}
	cfg, err := read(p, argv, env)
	switch {
	case err == nil:
		return cfg, 0
	case errors.Is(err, ErrHelp):
		usage(p, argv0, env)
		return nil, 0
	case errors.Is(err, ErrVersion):
		_, _ = fmt.Fprintln(env.Stdout, Version)
		return nil, 0
	}
	if !errors.Is(err, errSilent) {
		_, _ = fmt.Fprintf(env.Stderr, "ERROR| %s\n", escape(err.Error()))
	}
	if !errors.As(err, new(plainError)) {
		usage(p, argv0, env)
	}
	return nil, 1
}

// ofNew is a command or an option in args, which are a copy's under a name of its own, that only the new program has; empty if there is
// none. Of the names that programs here have nothing is said: they are called so on purpose.
func ofNew(argv0 string, args, commands []string) string {
	if base := filepath.Base(argv0); argv0 == "" || base == "socket_vmnet" || base == "socket_vmnet_client" {
		return ""
	}
	if len(args) > 0 && slices.Contains(commands, args[0]) {
		return args[0]
	}
	own := Flags(New)[len(Flags(Old)):]
	for _, a := range args {
		option, _, _ := strings.Cut(a, "=")
		if slices.ContainsFunc(own, func(f cli.Flag) bool { return "--"+f.Names()[0] == option }) {
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
	if err != nil {
		return nil, err
	}
	if set.NArg() != 1 && (set.NArg() != 0 || !s.ListInterfaces) {
		return nil, errSilent
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

// usage prints the usage text to standard output, where socket_vmnet has it even after an error.
func usage(p Personality, argv0 string, env IO) {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [OPTION]... SOCKET\n", argv0)
	b.WriteString("Connects virtual machines (QEMU, Lima, minikube, ...) that open the unix socket SOCKET to one network.\n\n")
	b.WriteString(optionLines(Flags(p)))
	if len(env.Commands) > 0 {
		fmt.Fprintf(&b, "\nThe first argument may also be a command, each with a --help of its own: %s\n", strings.Join(env.Commands, ", "))
	}
	fmt.Fprintf(&b, "\nVersion: %s\n", Version)
	_, _ = io.WriteString(env.Stdout, b.String())
}
