// SPDX-License-Identifier: Apache-2.0

package compat

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
