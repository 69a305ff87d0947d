// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// ErrHelp and ErrVersion are what a command line comes to with the options of these names, at once: what is in front of them has been
// checked, what follows has not.
var (
	ErrHelp    = errors.New("help")
	ErrVersion = errors.New("version")
)

// ParseCommand reads args, which are those behind c's name, into its flags. The operands are the Args of what it returns; they are
// neither more nor fewer than ArgsUsage says.
func ParseCommand(c *cli.Command, args []string) (*flag.FlagSet, error) {
	set, err := ParseFlags(c.Flags, args, strings.Contains(c.ArgsUsage, "-- COMMAND"))
	if err != nil {
		return nil, suggest(err, c.Flags)
	}
	return set, checkOperands(c, set.Args())
}

// ParseFlags reads args into flags, with values set in order of their appearance; the operands are the Args of what it returns.
func ParseFlags(flags []cli.Flag, args []string, posixly bool) (*flag.FlagSet, error) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	operands, err := scan(itemsOf(flags), args, posixly, func(it Item, value string) error {
		switch {
		case it.Name == "help":
			return ErrHelp
		case it.Name == "version":
			return ErrVersion
		case it.Arg == "":
			value = "true"
		}
		return set.Set(it.Name, value)
	})
	if err != nil {
		return nil, err
	}
	return set, set.Parse(append([]string{"--"}, operands...))
}

// checkOperands refuses operands that are too many, or too few, for the command's ArgsUsage.
func checkOperands(c *cli.Command, operands []string) error {
	var needed []string
	most, optional := 0, false
	for word := range strings.FieldsSeq(c.ArgsUsage) {
		optional = optional || word[0] == '['
		most++
		if strings.HasSuffix(word, "...") || strings.HasSuffix(word, "--") {
			most = len(operands)
		}
		if !optional && word != "--" {
			needed = append(needed, strings.TrimSuffix(word, "..."))
		}
		optional = optional && !strings.Contains(word, "]")
	}
	own := operands // without another program's
	if i := slices.Index(operands, "--"); i >= 0 {
		own = operands[:i]
	}
	switch n := len(operands); {
	case strings.Contains(c.ArgsUsage, "SOCKET") && slices.Contains(own, ""):
		return errors.New("SOCKET is empty")
	case n < len(needed) && strings.Contains(needed[n], "|"):
		return fmt.Errorf("what is %s to do? One of %s", c.Name, strings.ReplaceAll(needed[n], "|", ", "))
	case n < len(needed):
		return fmt.Errorf("no %s", needed[n])
	case n > 0 && c.ArgsUsage == "":
		return fmt.Errorf("%s takes options only, not %q", c.Name, operands[0])
	case n > most:
		return fmt.Errorf("%s takes %s, not %q as well", c.Name, c.ArgsUsage, operands[most])
	}
	return nil
}

// Checked is a flag whose values set checks and keeps. It may have a letter as well.
func Checked(name, usage string, set func(value string) error, letter ...string) *cli.GenericFlag {
	return &cli.GenericFlag{Name: name, Aliases: letter, Usage: usage, Value: &value{set: set}}
}

// A value is a flag.Value that hands on what it is given, and keeps it for cli.Context's String.
type value struct {
	set  func(string) error
	text string
}

// Set implements flag.Value.
func (v *value) Set(text string) error {
	v.text = text
	return v.set(text)
}

// String implements flag.Value.
func (v *value) String() string { return v.text }

// checkWord refuses a command line of the new program whose only operand looks like a mistyped subcommand: a daemon that
// serves ./statsu is not what "socket_vmnet2 statsu" was meant for. A caller that names no subcommands has nothing refused.
func checkWord(word string, commands []Item) error {
	if len(commands) == 0 || word == "" || strings.Contains(word, "/") || word[0] == '-' {
		return nil
	}
	if info, err := os.Lstat(word); err == nil && info.Mode().Type() == os.ModeSocket {
		return nil
	}
	if slices.ContainsFunc(commands, func(c Item) bool { return c.Name == word }) {
		return fmt.Errorf("%s is a command as the first argument only; a socket of that name is ./%[1]s", word)
	}
	text := UnknownCommand(word, commands).Error()
	if !strings.HasSuffix(text, "?") {
		text += "."
	}
	return fmt.Errorf("%s A socket of that name is ./%s", text, word)
}

// Subcommand takes a command line apart that asks for a subcommand: only the new program has them, and only its first
// argument, letter for letter, is one. It returns the name, empty when this is the daemon's command line, and the rest.
func Subcommand(argv, names []string) (name string, args []string) {
	if len(argv) < 2 || PersonalityOf(argv[0]) != New || !slices.Contains(names, argv[1]) {
		return "", nil
	}
	return argv[1], argv[2:]
}

// Network are the daemon's options that say what network it opens, for a subcommand.
type Network struct{ s *settings }

// NewNetwork returns one with all defaults.
func NewNetwork() Network { return Network{newSettings(New)} }

// Flags are the options, which fill n in.
func (n Network) Flags() []cli.Flag {
	all := slices.Concat(n.s.upstreamNetwork(), n.s.ownNetwork(), buildFlags(n.s))
	for _, f := range all {
		const category = "The network's options are those of the daemon"
		switch f := f.(type) {
		case *cli.BoolFlag:
			f.Category = category
		case *cli.GenericFlag:
			f.Category = category
		case *cli.StringFlag:
			f.Category = category
		}
	}
	return all
}

// SocketFlags are those of the daemon that say whose its socket is; they fill n in as well.
func (n Network) SocketFlags() []cli.Flag { return []cli.Flag{n.s.socketGroup(), n.s.socketUser()} }

// Config is the daemon's Config for the network that the options given in c describe, checked as the daemon does. It has no SocketPath.
func (n Network) Config(c *cli.Context, env IO) (*Config, error) {
	s := *n.s
	s.given = c.IsSet
	if err := s.finish(); err != nil {
		return nil, err
	}
	_, s.Debug = env.LookupEnv("DEBUG")
	return &s.Config, nil
}

// An unknownOption is one that nothing has.
type unknownOption struct {
	option string // with its dashes
	word   string // what may have been meant by it, without
}

// Error implements error.
func (u unknownOption) Error() string { return "unknown option " + u.option }

// suggest adds the nearest of flags to an error about an option that is none of them.
func suggest(err error, flags []cli.Flag) error {
	u, ok := errors.AsType[unknownOption](err)
	if !ok {
		return err
	}
	if near := nearest(u.word, Items(flags)); near != "" {
		return fmt.Errorf("%w: did you mean --%s?", err, near)
	}
	return err
}

// UnknownCommand says that word is none of the subcommands, and which one may have been meant.
func UnknownCommand(word string, commands []Item) error {
	if near := nearest(word, commands); near != "" {
		return fmt.Errorf("unknown command %s: did you mean %s?", quoted(word), near)
	}
	return fmt.Errorf("unknown command %s", quoted(word))
}

// nearest is the name that word is probably a slip of; empty if there is none. Two letters may be missing, too many or have changed
// places, and more in a long word. One letter is a slip of nothing.
func nearest(word string, items []Item) (name string) {
	if len(word) < 2 {
		return ""
	}
	least := max(2, len(word)/3) + 1
	for _, it := range items {
		if n := smetrics.WagnerFischer(strings.ToLower(word), it.Name, 1, 1, 2); n < least {
			name, least = it.Name, n
		}
	}
	return name
}

// SeeHelp is err, which is about a bad command line, in one line with where to read what there is: command's usage text, or that of the
// program.
func SeeHelp(err error, command string) error {
	return fmt.Errorf("%s (see %s --help)", New.lines(err)[0], strings.TrimSpace(Program+" "+command))
}
