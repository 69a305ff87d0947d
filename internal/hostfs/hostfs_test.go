// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOwners is whose files a daemon of root and one of a user trust; the rest is in TestFind of upgrade and
// TestUntrustedDirectory of state.
func TestOwners(t *testing.T) {
	me := os.Geteuid()
	path := t.TempDir() + "/p"
	require.NoError(t, os.WriteFile(path, nil, 0o755))
	for _, c := range []struct {
		name  string
		euid  int
		mode  os.FileMode
		trust bool
	}{
		{"ours", me, 0o755, true},
		{"another user's", me + 1, 0o755, me == 0},
		{"written by a group of root's daemon", 0, 0o775, false},
		{"written by a group of a user's daemon", 1000, 0o775, me == 0 || me == 1000},
		{"written by all", 1000, 0o757, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.Chmod(path, c.mode))
			info, err := os.Lstat(path)
			require.NoError(t, err)
			w := walk{euid: c.euid}
			err = w.trust(path, info)
			if c.trust {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, err, new(*Untrusted))
			}
		})
	}
}
