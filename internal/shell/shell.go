// SPDX-License-Identifier: Apache-2.0

// Package shell writes words for a POSIX shell: commands that a user is told to type.
package shell

import "strings"

// plain are the characters that mean themselves anywhere in a word of a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// Quote is text as one word of a shell's command, as it is where that is one already. No shell can be given a zero byte.
func Quote(text string) string {
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
