// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/compat/manual"
)

var update = flag.Bool("update", false, "write the manual pages and completions")

// TestManual: manual pages and completions are what the tables of options and commands give.
func TestManual(t *testing.T) {
	files, err := manual.Files(manual.Tree{Old: compat.Flags(compat.Old), Daemon: compat.Flags(compat.New), Commands: commands(compat.IO{})})
	require.NoError(t, err)
	for name, want := range files {
		path := filepath.Join("../..", name)
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
			continue
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), "%s is not current: run make manual", name)
	}
}
