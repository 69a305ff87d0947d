// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"io"
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

// An Outcome tells what to do when Parse returned no Config: end with Code. All output has been made.
type Outcome struct {
	Code int // 0 after --help and --version, else 1
}

// Parse reads argv, its first element being the program's name. It returns either a Config or, after --help, --version or a
// bad command line, nil and the exit code.
func Parse(p Personality, argv []string, env IO) (*Config, Outcome) {
	ps := parser{opts: optionsOf(p), env: env, argv0: "socket_vmnet", old: p == Old}
	if p != New {
		ps.env.Commands = nil
	}
	if len(argv) > 0 {
		ps.argv0, argv = argv[0], argv[1:]
	}
	cfg, err := ps.parse(argv)
	switch {
	case err == nil:
		return cfg, Outcome{}
	case errors.Is(err, errHelp):
		ps.usage()
		return nil, Outcome{}
	case errors.Is(err, errVersion):
		_, _ = fmt.Fprintln(env.Stdout, Version)
		return nil, Outcome{}
	}
	if !errors.Is(err, errSilent) {
		_, _ = fmt.Fprintf(env.Stderr, "ERROR| %s\n", escape(err.Error()))
	}
	if !errors.As(err, new(plainError)) {
		ps.usage()
	}
	return nil, Outcome{Code: 1}
}

// errHelp and errVersion end the scan.
var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
)

// parser is one call of Parse.
type parser struct {
	opts  []option
	env   IO
	argv0 string
	old   bool
}

// parse takes argv without the program's name through scanner, urfave and checks.
func (ps *parser) parse(argv []string) (*Config, error) {
	canonical, err := ps.canonical(argv)
	if err != nil {
		return nil, err
	}
	s := &settings{Config: defaultConfig(), old: ps.old}
	if err := ps.fill(s, canonical); err != nil {
		return nil, err
	}
	_, s.Debug = ps.env.LookupEnv("DEBUG")
	if s.ListInterfaces {
		return &s.Config, nil
	}
	if err := s.finish(); err != nil {
		for _, w := range s.Warnings {
			_, _ = fmt.Fprintf(ps.env.Stderr, "WARN | %s\n", w)
		}
		return nil, err
	}
	return &s.Config, nil
}

// canonical turns argv into --name=value for each option in order, then "--" and, if there is one, SOCKET.
func (ps *parser) canonical(argv []string) ([]string, error) {
	_, posixly := ps.env.LookupEnv("POSIXLY_CORRECT")
	sc := newScanner(specsOf(ps.opts), argv, posixly)
	var out []string
	var alone bool
	for {
		ev, ok, err := sc.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		o := ps.opts[ev.index]
		alone = alone || o.alone
		switch {
		case o.key == keyHelp:
			return nil, errHelp
		case o.key == keyVersion:
			return nil, errVersion
		case o.atOnce:
			if err := o.set(&settings{}, ev.value); err != nil {
				return nil, err
			}
		}
		if o.arg == "" {
			out = append(out, "--"+o.name)
		} else {
			out = append(out, "--"+o.name+"="+ev.value)
		}
	}
	if n := len(sc.operands); n != 1 && (n != 0 || !alone) {
		return nil, errSilent
	}
	if !alone {
		if err := ps.checkWord(sc.operands); err != nil {
			return nil, err
		}
	}
	return append(append(out, "--"), sc.operands...), nil
}

// fill has urfave/cli read the canonical arguments and stores them in s.
func (ps *parser) fill(s *settings, canonical []string) error {
	app := &cli.App{
		Name:                      ps.argv0,
		Flags:                     ps.flags(),
		Writer:                    io.Discard,
		ErrWriter:                 io.Discard,
		HideHelp:                  true,
		HideHelpCommand:           true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return err },
		Action: func(c *cli.Context) error {
			s.SocketPath = c.Args().First()
			return ps.store(s, c)
		},
	}
	return app.Run(append([]string{ps.argv0}, canonical...))
}

// flags is the table in urfave's terms.
func (ps *parser) flags() []cli.Flag {
	var flags []cli.Flag
	for _, o := range ps.opts {
		switch {
		case o.key != keyNone:
		case o.arg == "":
			flags = append(flags, &cli.BoolFlag{Name: o.name})
		case o.repeat:
			flags = append(flags, &cli.StringSliceFlag{Name: o.name, KeepSpace: true})
		default:
			flags = append(flags, &cli.StringFlag{Name: o.name})
		}
	}
	return flags
}

// store calls the set function of every option that was given.
func (ps *parser) store(s *settings, c *cli.Context) error {
	given := c.LocalFlagNames()
	for _, o := range ps.opts {
		if o.key != keyNone || !slices.Contains(given, o.name) {
			continue
		}
		values := []string{c.String(o.name)}
		if o.repeat {
			values = c.StringSlice(o.name)
		}
		for _, v := range values {
			if err := o.set(s, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// usageColumn is where the explanations begin.
const usageColumn = 38

// usage prints the usage text to standard output, where socket_vmnet has it even after an error.
func (ps *parser) usage() {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s [OPTION]... SOCKET\n", ps.argv0)
	b.WriteString("Connects virtual machines (QEMU, Lima, minikube, ...) that open the unix socket SOCKET to one network.\n\n")
	writeOptions(&b, ps.opts)
	if len(ps.env.Commands) > 0 {
		fmt.Fprintf(&b, "\nThe first argument may also be a command, each with a --help of its own: %s\n", strings.Join(ps.env.Commands, ", "))
	}
	fmt.Fprintf(&b, "\nVersion: %s\n", Version)
	_, _ = io.WriteString(ps.env.Stdout, b.String())
}

// writeOptions writes the lines of opts for a usage text.
func writeOptions(b *strings.Builder, opts []option) {
	for _, o := range opts {
		head := "--" + o.name
		if o.short != 0 {
			head = "-" + string(rune(o.short)) + ", " + head
		}
		if o.arg != "" {
			head += "=" + o.arg
		}
		for i, line := range strings.Split(o.help, "\n") {
			if i > 0 {
				head = ""
			}
			fmt.Fprintf(b, "%-*s %s\n", usageColumn, head, line)
		}
	}
}
