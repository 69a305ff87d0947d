// SPDX-License-Identifier: Apache-2.0

// Package printable makes foreign text harmless where people read, log or type it: guests, clients and files choose names.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMarks is how many combining marks a character may carry: more of them leave their line.
const maxMarks = 2

// Line is s as one line that moves no cursor, of at most most bytes. A space stands for every line feed and tab, and a question mark for
// every other character that does not print.
func Line(s string, most int) string {
	s = Lines(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s))
	for len(s) > most {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

// Lines is s with its line feeds, and a question mark for every other character that does not print.
func Lines(s string) string {
	marks := 0
	return strings.Map(func(r rune) rune {
		if !unicode.Is(unicode.M, r) {
			marks = 0
		} else if marks++; marks > maxMarks {
			return -1
		}
		if r != '\n' && (r == unicode.ReplacementChar || !unicode.IsPrint(r)) {
			return '?'
		}
		return r
	}, s)
}

// plain are the characters that mean themselves anywhere in a word of a shell.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// Quote is text as one word of a shell's command, as it is where that is one already. No shell can be given a zero byte.
func Quote(text string) string {
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
