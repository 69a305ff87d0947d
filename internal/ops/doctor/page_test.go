// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "../../../docs/doctor.md"

// TestPage: each check has its section, in their order, with the question that it answers and every severity that any of the
// staged systems gets from it.
func TestPage(t *testing.T) {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(b)
	sections := regexp.MustCompile("(?m)^### `(.*)`$").FindAllStringSubmatchIndex(text, -1)
	checks := checks()
	require.Len(t, sections, len(checks))
	told := severities(t)
	for i, c := range checks {
		assert.Equal(t, c.ID, text[sections[i][2]:sections[i][3]])
		end := len(text)
		if i+1 < len(checks) {
			end = sections[i+1][0]
		}
		section := text[sections[i][0]:end]
		assert.Contains(t, section, "\n\n*"+c.Title+"*\n\n", c.ID)
		if c.goos != "" {
			assert.Contains(t, strings.ToLower(section), map[string]string{"darwin": "macos", "linux": "linux"}[c.goos], c.ID)
		}
		for severity := range told[c.ID] {
			if severity == severityOK || c.ID == "daemons" { // whatever a daemon says
				continue
			}
			assert.Regexp(t, `(?m)^\| [a-z, ]*`+severity, section, "%s: %s", c.ID, severity)
		}
	}
}

// severities are those of each check's findings in the golden reports.
func severities(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(stages))
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^  (ok|notice|warning|error) +([a-z]+): `).FindAllStringSubmatch(string(b), -1) {
			if all[m[2]] == nil {
				all[m[2]] = map[string]bool{}
			}
			all[m[2]][m[1]] = true
		}
	}
	return all
}

// TestSamples compares the reports on the page with what the program says of the staged systems.
func TestSamples(t *testing.T) {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	mark := regexp.MustCompile(`(?s)(<!-- sample: ([a-z-]+) -->\n).*?(<!-- /sample -->)`)
	want := mark.ReplaceAllFunc(b, func(found []byte) []byte {
		m := mark.FindSubmatch(found)
		tt, ok := stages[string(m[2])]
		require.True(t, ok, "%s", m[2])
		s := tt.system(t)
		r := Examine(t.Context(), s)
		r.Root = ""
		var text bytes.Buffer
		require.NoError(t, r.WriteText(&text))
		return []byte(string(m[1]) + "\n```text\n" + strings.ReplaceAll(text.String(), s.Root, "") + "```\n\n" + string(m[3]))
	})
	if *update {
		require.NoError(t, os.WriteFile(page, want, 0o644)) //nolint:gosec // a file of the repository
		return
	}
	assert.Equal(t, string(want), string(b), "go test ./internal/ops/doctor -update")
}

// TestSchema finds every key of the JSON document on the page.
func TestSchema(t *testing.T) {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, typ := range []reflect.Type{reflect.TypeFor[Report](), reflect.TypeFor[finding](), reflect.TypeFor[omission]()} {
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			assert.Contains(t, string(b), "`"+name+"`", "%s.%s", typ, f.Name)
		}
	}
}
