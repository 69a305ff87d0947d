// SPDX-License-Identifier: Apache-2.0

package cmdline

import (
	"fmt"
	"strings"
)

// An option is what scan needs to know of one.
type option struct {
	Name     string // long name without dashes
	Short    byte   // 0 where there is none
	Argument bool   // it takes one
}

// scan reads args, which is argv without the program's name, as getopt_long(3) does, glibc's and macOS's alike: options and operands
// in any order unless posixly is set, clusters of short options, arguments attached or separate, and long names cut to any prefix
// that fits only one option. An exact name wins over longer ones that it begins. scan calls each for every option, with its long name
// and its argument, and stops at the first error of each or of its own.
func scan(options []option, args []string, posixly bool, each func(name, value string) error) (operands []string, err error) {
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
	options []option
	args    []string // those that are left
	each    func(name, value string) error
}

// cluster takes letters of options, such as hv of -hv. What follows the letter of an option with an argument is that.
func (s *scanner) cluster(letters string) error {
	for i := range len(letters) {
		o, ok := s.letter(letters[i])
		if !ok {
			return fmt.Errorf("unknown option -%s", string(rune(letters[i])))
		}
		value := ""
		if o.Argument {
			if value = letters[i+1:]; value == "" {
				if value, ok = s.shift(); !ok {
					return fmt.Errorf("option -%c needs an argument", o.Short)
				}
			}
		}
		if err := s.each(o.Name, value); err != nil || o.Argument {
			return err
		}
	}
	return nil
}

func (s *scanner) letter(c byte) (option, bool) {
	for _, o := range s.options {
		if o.Short == c && c != 0 {
			return o, true
		}
	}
	return option{}, false
}

// long takes body, an argument without its leading dashes.
func (s *scanner) long(body string) error {
	name, value, attached := strings.Cut(body, "=")
	o, err := s.find(name)
	if err != nil {
		return err
	}
	switch {
	case !o.Argument && attached:
		return fmt.Errorf("option --%s takes no argument", o.Name)
	case o.Argument && !attached:
		var ok bool
		if value, ok = s.shift(); !ok {
			return fmt.Errorf("option --%s needs an argument", o.Name)
		}
	}
	return s.each(o.Name, value)
}

// find returns the option with this name or the only one that begins with it.
func (s *scanner) find(name string) (option, error) {
	var hits []option
	var names []string
	for _, o := range s.options {
		if o.Name == name {
			return o, nil
		}
		if strings.HasPrefix(o.Name, name) {
			hits, names = append(hits, o), append(names, "--"+o.Name)
		}
	}
	switch len(hits) {
	case 0:
		return option{}, fmt.Errorf("unknown option --%s", name)
	case 1:
		return hits[0], nil
	}
	return option{}, fmt.Errorf("option --%s is ambiguous: %s", name, strings.Join(names, " "))
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
