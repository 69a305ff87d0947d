// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
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
		return nil, err
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
	return &cli.GenericFlag{Name: name, Aliases: letter, Usage: usage, Value: setter(set)}
}

// A setter is a flag.Value that hands on what it is given.
type setter func(string) error

// Set implements flag.Value.
func (s setter) Set(text string) error { return s(text) }

// String implements flag.Value.
func (setter) String() string { return "" }
