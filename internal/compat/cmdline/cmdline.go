// SPDX-License-Identifier: Apache-2.0

// Package cmdline reads command lines as getopt_long does into flags of urfave/cli, and writes the usage texts of commands.
//
// A command is one entry of urfave's tree, from which everything else is made: its Usage is what a usage text says in front of the
// options, its Description what follows them, its ArgsUsage the operands. The Usage of a flag that takes an argument begins with the
// name of that in backquotes, "(a|b)" for a choice; each of its lines is a remark of its own. Flags with a Category are listed behind
// the others, under it.
package cmdline

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// What Parse returns for the options of these names, at once: what is in front of them has been checked, what follows has not.
var (
	ErrHelp    = errors.New("help")
	ErrVersion = errors.New("version")
)

// Parse reads args into flags, with values set in order of their appearance; the operands are the Args of what it returns.
func Parse(flags []cli.Flag, args []string, posixly bool) (*flag.FlagSet, error) {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	options := make([]option, len(flags))
	for i, f := range flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
		options[i].Name = f.Names()[0]
		if len(f.Names()) > 1 {
			options[i].Short = f.Names()[1][0]
		}
		options[i].Argument = takesValue(f)
	}
	operands, err := scan(options, args, posixly, func(name, value string) error {
		switch b, _ := set.Lookup(name).Value.(interface{ IsBoolFlag() bool }); {
		case name == "help":
			return ErrHelp
		case name == "version":
			return ErrVersion
		case b != nil && b.IsBoolFlag():
			value = "true"
		}
		return set.Set(name, value)
	})
	if err != nil {
		return nil, err
	}
	return set, set.Parse(append([]string{"--"}, operands...))
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// Operands refuses operands that are too many, or too few, for the command's ArgsUsage.
func Operands(c *cli.Command, operands []string) error {
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

// A value is a flag.Value that hands on what it is given.
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
