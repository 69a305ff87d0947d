// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// checkWord refuses a command line of the new program whose only operand looks like a mistyped subcommand: a daemon that
// serves ./statsu is not what "socket_vmnet2 statsu" was meant for. A caller that names no subcommands has nothing refused.
func checkWord(word string, commands []string) error {
	if len(commands) == 0 || word == "" || strings.Contains(word, "/") {
		return nil
	}
	if info, err := os.Lstat(word); err == nil && info.Mode().Type() == os.ModeSocket {
		return nil
	}
	return plainError{fmt.Errorf("%w A socket is given by its path, such as ./%s", UnknownCommand(word, commands), word)}
}

// UnknownCommand says that word is none of the subcommands names, and what to do. It is a whole sentence.
func UnknownCommand(word string, names []string) error {
	hint := "socket_vmnet2 help lists them."
	if slices.Contains(names, word) {
		hint = "that is one as the first argument."
	} else if name := nearest(word, names); name != "" {
		hint = fmt.Sprintf("did you mean %q?", name)
	}
	return fmt.Errorf("unknown command %s: %s", quoted(word), hint)
}

// nearest is the name that word was meant for, empty if that cannot be guessed: one that it begins, or one that is a slip of the
// keyboard for each three letters away.
func nearest(word string, names []string) string {
	word = strings.ToLower(word)
	best, slips := "", (len(word)+1)/3
	for _, name := range names {
		if len(word) > 1 && strings.HasPrefix(name, word) {
			return name
		}
		if n := distance(word, name); n < slips || n == slips && best == "" {
			best, slips = name, n
		}
	}
	return best
}

// distance is the number of letters to add, leave out, change, or swap with the next one between a and b.
func distance(a, b string) int {
	var before, last, row []int // of the table, for the prefixes of b
	for j := range len(b) + 1 {
		row = append(row, j)
	}
	for i := range len(a) {
		before, last, row = last, row, []int{i + 1}
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			n := min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, before[j-1]+1)
			}
			row = append(row, n)
		}
	}
	return row[len(b)]
}
