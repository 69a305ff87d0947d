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
	empty := t.TempDir()
	for name, tt := range map[string]struct {
		args  []string
		code  int
		want  string
		usage bool
	}{
		"operand":        {[]string{"x"}, 1, `migrate takes options only, not "x"`, true},
		"unknown option": {[]string{"--write"}, 1, "unknown option --write", true},
		"no directory":   {[]string{"--root=" + file + "x"}, 1, "--root=" + file + "x cannot be looked at: ", false},
		"file":           {[]string{"--root=" + file}, 1, "--root=" + file + " cannot be looked at: ", false},
		"empty root":     {[]string{"--root="}, 1, "--root needs a directory", true},
		"value for json": {[]string{"--json=x"}, 1, "option --json takes no argument", true},
		"nothing":        {[]string{"--root=" + empty}, 2, "No socket_vmnet was found", false},
		"something":      {[]string{"--root=" + root}, 0, "sudo " + filepath.Join(binaries, "socket_vmnet2") + " install\n", false},
		"help":           {[]string{"--help"}, 0, "\nExit code: 0 ", true},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), append([]string{"migrate"}, tt.args...)...))
			assert.Equal(t, tt.code, code)
			assert.Contains(t, stdout+stderr, tt.want)
			assert.Equal(t, tt.code == 1, strings.HasPrefix(stderr, "ERROR| "), stderr)
			assert.Equal(t, tt.usage, strings.HasPrefix(stdout, "Usage: socket_vmnet2 migrate "), stdout)
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
