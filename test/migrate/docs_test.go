// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
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

// TestSchema finds every key of the JSON document in the documentation, and every value of the ones that have few.
func TestSchema(t *testing.T) {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(b)
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Slice:
			walk(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
					assert.Contains(t, text, "`"+name+"`", "%s.%s", typ, f.Name)
				}
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[migrate.Plan]())
	source, err := filepath.Glob("../../internal/migrate/*.go")
	require.NoError(t, err)
	for _, path := range source {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, part := range strings.Split(string(b), "Kind: \"")[1:] {
			kind, _, _ := strings.Cut(part, `"`)
			assert.Contains(t, text, "| `"+kind+"` |", path)
		}
	}
	for _, value := range []string{
		migrate.KindUpstream, migrate.KindRancher, migrate.VerdictNothing, migrate.AttachReconnect, migrate.AttachStream,
		migrate.AttachDescriptor, migrate.AttachVZ, migrate.EffectNotRunning, migrate.SudoersUnreadable, migrate.StateAlone,
	} {
		assert.Contains(t, text, "`"+value+"`")
	}
}
