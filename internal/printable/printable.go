// SPDX-License-Identifier: Apache-2.0

// Package printable makes text for people: foreign text is harmless where they read, log or type it, since guests, clients and files
// choose names.
package printable

import (
	"fmt"
	"net/netip"
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
	for len(s) > max(most, 0) {
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

// Command is a shell's command of these words.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// List joins words for a sentence.
func List(words []string) string {
	n := len(words)
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
}

// Count is a number with what is counted.
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Behind is text behind its label, or nothing if there is none.
func Behind(label, text string) string {
	if text == "" {
		return ""
	}
	return label + text
}

// Valid is an address or a prefix, or nothing if there is none.
func Valid[A netip.Addr | netip.Prefix](a A) string {
	if a == *new(A) {
		return ""
	}
	return fmt.Sprint(a)
}

// Wrap breaks text into lines of so many characters.
func Wrap(text string, length int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > length:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Hang is text behind first, broken into lines of at most so many characters, the others of which stand below it.
func Hang(first, text string, length int) string {
	n := utf8.RuneCountInString(first)
	return first + strings.Join(Wrap(text, length-n), "\n"+strings.Repeat(" ", n))
}
