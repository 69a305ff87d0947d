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

// nearest is the name that word was meant for, empty if that cannot be guessed: one that it begins, or one with the same letters but
// for one in three.
func nearest(word string, names []string) string {
	word = strings.ToLower(word)
	if i := slices.IndexFunc(names, func(name string) bool { return len(word) > 1 && strings.HasPrefix(name, word) }); i >= 0 {
		return names[i]
	}
	best := slices.MinFunc(names, func(a, b string) int { return difference(word, a) - difference(word, b) })
	if difference(word, best) > (len(word)+1)/3 {
		return ""
	}
	return best
}

// difference is the number of letters that only one of the two has, wherever they are.
func difference(a, b string) (n int) {
	var letters [256]int
	for _, c := range []byte(a) {
		letters[c]++
	}
	for _, c := range []byte(b) {
		letters[c]--
	}
	for _, more := range letters {
		n += max(more, -more)
	}
	return n
}
