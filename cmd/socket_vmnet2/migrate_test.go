// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// TestMigrateKnowsSubcommands: a process whose first argument is a subcommand is no daemon to migrate.
func TestMigrateKnowsSubcommands(t *testing.T) {
	assert.ElementsMatch(t, commandNames(), find.Subcommands)
}

func TestMigrateCommandLines(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "opt/socket_vmnet/bin/socket_vmnet")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("#!"), 0o755)) //nolint:gosec // a program
	for name, tt := range map[string]struct {
		root string
		code int
		want string
	}{
		"no directory": {file + "x", 1, "ERROR| --root=" + file + "x cannot be looked at: "},
		"file":         {file, 1, "ERROR| --root=" + file + " cannot be looked at: "},
		"nothing":      {t.TempDir(), 2, "No socket_vmnet was found"},
		"something":    {root, 0, "sudo " + filepath.Join(binaries, "socket_vmnet2") + " install\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), "migrate", "--root="+tt.root))
			assert.Equal(t, tt.code, code)
			assert.Contains(t, stdout+stderr, tt.want)
		})
	}
	_, stdout, _ := outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), "migrate", "--json", "--root="+root))
	var document struct {
		find.Inventory
		Moves []find.Move
	}
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&document))
	assert.Equal(t, "/opt/socket_vmnet/bin/socket_vmnet", document.Programs[0].Path)
	assert.Len(t, document.Moves, 1)
}
