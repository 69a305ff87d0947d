// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		most     int
		want     string
	}{
		{"plain", "vm 1", 100, "vm 1"},
		{"lines and tabs", "a\n\tb", 100, "a  b"},
		{"escape sequences", "\x1b[2J\x7f\u009b", 100, "?[2J??"},
		{"no UTF-8", "a\xffb", 100, "a?b"},
		{"direction and separators", "a\u202eb\u2028c\u200b", 100, "a?b?c?"},
		{"marks in a heap", "e" + strings.Repeat("\u0301", 9), 100, "e\u0301\u0301"},
		{"letters of others", "ü 猫", 100, "ü 猫"},
		{"too long", "abc", 2, "ab"},
		{"cut between characters", "aü", 2, "a"},
		{"nothing may stay", "ü", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, Line(tt.in, tt.most)) })
	}
	assert.Equal(t, "a\nb?", Lines("a\nb\r"))
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[31m\nü", 4)
	f.Fuzz(func(t *testing.T, s string, most int) {
		got := Line(s, most)
		assert.LessOrEqual(t, len(got), max(most, 0))
		assert.True(t, utf8.ValidString(got))
		assert.False(t, strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }))
		assert.Equal(t, got, Line(got, most))
	})
}
