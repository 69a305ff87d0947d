// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
