// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestQuote: a path that needs nothing stays readable.
func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "''",
		"/var/run/socket_vmnet":     "/var/run/socket_vmnet",
		"/Users/a b/s":              "'/Users/a b/s'",
		"it's":                      `'it'\''s'`,
		"$(id)":                     "'$(id)'",
		"~":                         "'~'",
		"system/org.example.a@1,2%": "system/org.example.a@1,2%",
	} {
		assert.Equal(t, want, Quote(text))
	}
}

// FuzzQuote compares quoting with what a shell makes of it.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "'", `\`, "$(id)", "`id`", "~", "-n", "*", "#", "é", "a\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) {
			return
		}
		out, err := exec.Command("sh", "-c", "set -f; for a in "+Quote(s)+" "+Quote(s)+"; do printf '[%s]' \"$a\"; done").Output() //nolint:gosec // that is the test
		require.NoError(t, err)
		assert.Equal(t, "["+s+"]["+s+"]", string(out))
	})
}
