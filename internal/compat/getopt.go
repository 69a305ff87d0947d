// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"strings"
)

// An argKind tells whether an option takes an argument. getopt_long's third kind, an optional one, is not used.
type argKind int

const (
	noArgument argKind = iota
	requiredArgument
)

// A spec is what the scanner needs to know of one option.
type spec struct {
	name  string // long name without dashes
	short byte   // 0 where there is none
	arg   argKind
}

// An event is one option that the scanner has met.
type event struct {
	index int    // into the specs
	value string // of an option that takes one
}

// A scanner reads argv as getopt_long(3) does, glibc's and macOS's alike: options and operands in any order unless
// posixly is set, clusters of short options, arguments attached or separate, and long names cut to any prefix that fits
// only one option. An exact name wins over longer ones that it begins.
type scanner struct {
	specs   []spec
	posixly bool // POSIXLY_CORRECT is set: the first operand ends the options
	args    []string
	cluster string // what is left of a cluster such as -hv

	operands []string
}

// newScanner starts on args, which is argv without the program's name.
func newScanner(specs []spec, args []string, posixly bool) *scanner {
	return &scanner{specs: specs, args: args, posixly: posixly}
}

// next returns the next option. ok is false when there are no more and operands is complete. After an error the caller
// stops, as socket_vmnet does.
func (s *scanner) next() (ev event, ok bool, err error) {
	if s.cluster != "" {
		return s.short()
	}
	for len(s.args) > 0 {
		arg := s.args[0]
		switch {
		case arg == "--":
			s.operands = append(s.operands, s.args[1:]...)
			s.args = nil
			return event{}, false, nil
		case len(arg) > 2 && strings.HasPrefix(arg, "--"):
			s.args = s.args[1:]
			return s.long(arg[2:])
		case len(arg) > 1 && arg[0] == '-':
			s.args = s.args[1:]
			s.cluster = arg[1:]
			return s.short()
		case s.posixly:
			s.operands = append(s.operands, s.args...)
			s.args = nil
			return event{}, false, nil
		default:
			s.operands = append(s.operands, arg)
			s.args = s.args[1:]
		}
	}
	return event{}, false, nil
}

// short takes the first letter of the cluster.
func (s *scanner) short() (event, bool, error) {
	c := s.cluster[0]
	s.cluster = s.cluster[1:]
	for i, sp := range s.specs {
		if sp.short != c || c == 0 {
			continue
		}
		if sp.arg == noArgument {
			return event{index: i}, true, nil
		}
		v := s.cluster
		s.cluster = ""
		if v == "" {
			var ok bool
			if v, ok = s.shift(); !ok {
				return event{}, false, fmt.Errorf("option -%c needs an argument", c)
			}
		}
		return event{index: i, value: v}, true, nil
	}
	return event{}, false, fmt.Errorf("unknown option -%s", string(rune(c)))
}

// long takes body, an argument without its leading dashes.
func (s *scanner) long(body string) (event, bool, error) {
	name, value, attached := strings.Cut(body, "=")
	i, err := s.find(name)
	if err != nil {
		return event{}, false, err
	}
	sp := s.specs[i]
	switch {
	case sp.arg == noArgument && attached:
		return event{}, false, fmt.Errorf("option --%s takes no argument", sp.name)
	case sp.arg == requiredArgument && !attached:
		var ok bool
		if value, ok = s.shift(); !ok {
			return event{}, false, fmt.Errorf("option --%s needs an argument", sp.name)
		}
	}
	return event{index: i, value: value}, true, nil
}

// find returns the option with this name or the only one that begins with it.
func (s *scanner) find(name string) (int, error) {
	var hits []int
	for i, sp := range s.specs {
		if sp.name == name {
			return i, nil
		}
		if strings.HasPrefix(sp.name, name) {
			hits = append(hits, i)
		}
	}
	switch len(hits) {
	case 0:
		return 0, fmt.Errorf("unknown option --%s", name)
	case 1:
		return hits[0], nil
	}
	names := make([]string, len(hits))
	for i, h := range hits {
		names[i] = "--" + s.specs[h].name
	}
	return 0, fmt.Errorf("option --%s is ambiguous: %s", name, strings.Join(names, " "))
}

// shift takes the next argument whatever it looks like: an option's argument may begin with a dash.
func (s *scanner) shift() (string, bool) {
	if len(s.args) == 0 {
		return "", false
	}
	v := s.args[0]
	s.args = s.args[1:]
	return v, true
}

// An Option is one that Scan knows.
type Option struct {
	Name     string // long name without dashes
	Short    byte   // 0 where there is none
	Argument bool   // it takes one
}

// Scan reads args, which is argv without the program's name, as getopt_long(3) does: options and operands in any order unless
// posixly is set, clusters of short options, arguments attached or separate, long names cut to any prefix that fits only one
// option. It calls each for every option, with its long name and its argument, and stops at the first error of each or of its
// own. The daemon's options have a table of their own; this is for the other programs that replace one of the same name.
func Scan(options []Option, args []string, posixly bool, each func(name, value string) error) (operands []string, err error) {
	specs := make([]spec, len(options))
	for i, o := range options {
		specs[i] = spec{name: o.Name, short: o.Short}
		if o.Argument {
			specs[i].arg = requiredArgument
		}
	}
	s := newScanner(specs, args, posixly)
	for {
		ev, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return s.operands, nil
		}
		if err := each(specs[ev.index].name, ev.value); err != nil {
			return nil, err
		}
	}
}
