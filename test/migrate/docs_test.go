// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "../../docs/migrate.md"

// TestSample compares the plan in the documentation with what the program prints.
func TestSample(t *testing.T) {
	const begin, end = "<!-- sample -->\n", "<!-- /sample -->"
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok)
	sample, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)

	root := trees["lima"].tree.build(t)
	text := neutral(run(t, "--root="+root).out, root)
	_, text, _ = strings.Cut(text, "\n") // where it looked
	text = strings.ReplaceAll(strings.ReplaceAll(text, " --root=/staged", ""), "/staged", "")
	want := "\n```text\n" + text + "```\n\n"
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644)) //nolint:gosec // a file of the repository
		return
	}
	assert.Equal(t, want, sample, "go test ./test/migrate -update")
}
