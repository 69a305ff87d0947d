// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"slices"
	"strings"
)

// scan reads args, which is argv without the program's name, as getopt_long(3) does, glibc's and macOS's alike: options and operands
// in any order unless posixly is set, clusters of short options, arguments attached or separate, and long names cut to any prefix
// that fits only one option. An exact name wins over longer ones that it begins. scan calls each for every option, with
// its argument, and stops at the first error of each or of its own.
func scan(options []Item, args []string, posixly bool, each func(it Item, value string) error) (operands []string, err error) {
	s := scanner{options, args, each}
	for len(s.args) > 0 && err == nil {
		arg, _ := s.shift()
		switch {
		case arg == "--":
			return append(operands, s.args...), nil
		case strings.HasPrefix(arg, "--"):
			err = s.long(arg[2:])
		case len(arg) > 1 && arg[0] == '-':
			err = s.cluster(arg[1:])
		case posixly:
			return append(append(operands, arg), s.args...), nil
		default:
			operands = append(operands, arg)
		}
	}
	if err != nil {
		return nil, err
	}
	return operands, nil
}

// A scanner is one call of scan.
type scanner struct {
	options []Item
	args    []string // those that are left
	each    func(it Item, value string) error
}

// cluster takes letters of options, such as hv of -hv. What follows the letter of an option with an argument is that.
func (s *scanner) cluster(letters string) error {
	for i, c := range []byte(letters) {
		at := slices.IndexFunc(s.options, func(it Item) bool { return it.Short == string(rune(c)) })
		if at < 0 {
			return unknownOption{"-" + string(rune(c)), letters}
		}
		it, value := s.options[at], ""
		if it.Arg != "" {
			var ok bool
			if value = letters[i+1:]; value == "" {
				if value, ok = s.shift(); !ok {
					return fmt.Errorf("option -%s needs an argument", it.Short)
				}
			}
		}
		if err := s.each(it, value); err != nil || it.Arg != "" {
			return err
		}
	}
	return nil
}

// long takes body, an argument without its leading dashes.
func (s *scanner) long(body string) error {
	name, value, attached := strings.Cut(body, "=")
	it, err := s.find(name)
	if err != nil {
		return err
	}
	switch {
	case it.Arg == "" && attached:
		return fmt.Errorf("option --%s takes no argument", it.Name)
	case it.Arg != "" && !attached:
		var ok bool
		if value, ok = s.shift(); !ok {
			return fmt.Errorf("option --%s needs an argument", it.Name)
		}
	}
	return s.each(it, value)
}

// find returns the option with this name or the only one that begins with it.
func (s *scanner) find(name string) (hit Item, err error) {
	var names []string
	for _, it := range s.options {
		if it.Name == name {
			return it, nil
		}
		if strings.HasPrefix(it.Name, name) {
			hit, names = it, append(names, "--"+it.Name)
		}
	}
	switch len(names) {
	case 0:
		return hit, unknownOption{"--" + name, name}
	case 1:
		return hit, nil
	}
	return hit, fmt.Errorf("option --%s is ambiguous: %s", name, strings.Join(names, " "))
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
