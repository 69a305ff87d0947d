// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"go/version"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestToolchain: what CI builds with is a patch release of its own choice, by a line in go.mod that setup-go and the go command
// heed. The go line alone would be 1.26.0 there, with the holes that were found in it since. The line is never older than the
// minimum, and the same in all modules that CI builds; attach is built by others with what they have.
func TestToolchain(t *testing.T) {
	lines := regexp.MustCompile(`(?m)^go (\S+)$(?:\n\n^toolchain (\S+)$)?`)
	want := ""
	for _, file := range []string{"go.mod", "tools/go.mod", "tools/actionlint/go.mod", "tools/release/go.mod"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		m := lines.FindStringSubmatch(string(text))
		require.NotNil(t, m, file)
		require.True(t, version.IsValid(m[2]), "%s has no toolchain line behind its go line", file)
		assert.Positive(t, version.Compare(m[2], "go"+m[1]), "%s: toolchain %s, go %s", file, m[2], m[1])
		if want == "" {
			want = m[2]
		}
		assert.Equal(t, want, m[2], "%s: not the toolchain of go.mod", file)
	}
	from := regexp.MustCompile(`(?m)uses: actions/setup-go@\S+.*\n\s+with:\n\s+(\S.*)$`)
	for _, file := range []string{".github/workflows/test.yml", ".github/workflows/release.yml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		uses := from.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, uses, file)
		for _, use := range uses {
			assert.Equal(t, "go-version-file: go.mod", use[1], file)
		}
	}
}
