// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/report/internal/figures"
)

func TestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.json")
	notes, err := LoadNotes(path)
	require.NoError(t, err)
	assert.Empty(t, notes, "none are needed")
	assert.Empty(t, notes.table())

	for _, bad := range []string{"{", `[{"id":"a","value":"1"}]`, `[{"ids":"a"}]`} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := LoadNotes(path)
		require.ErrorContains(t, err, path)
	}
	require.NoError(t, os.WriteFile(path, []byte(`[{"id":"a","value":"1 %","what":"b","command":"c","commit":"d","date":"e"}]`), 0o600))
	notes, err = LoadNotes(path)
	require.NoError(t, err)
	value, err := notes.value("a")
	require.NoError(t, err)
	assert.Equal(t, "1 %", value)
	assert.Contains(t, notes.table(), "| 1 % | b | `c` | `d` | e |")
	_, err = notes.value("b")
	assert.ErrorContains(t, err, `"b"`)
}

func TestMacsAreSaid(t *testing.T) {
	f := sampleBench()
	assert.Contains(t, macs([]*figures.Run{{Name: "a", File: f}}), "None of our figures")
	g := f
	g.Machine.OS = "darwin"
	assert.Contains(t, macs([]*figures.Run{{Name: "a", File: f}, {Name: "mac-m1", File: g}}), "those of `mac-m1.json` were measured on a Mac and no others")
}
