// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

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
