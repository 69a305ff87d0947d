// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPidfileThatCannotBeWritten: the daemon does not start, says why, and leaves nothing. A disk that is full for the state or the log
// is what packages state and compat test.
func TestPidfileThatCannotBeWritten(t *testing.T) {
	dir := shortDir(t)
	sock := filepath.Join(dir, "s")
	c := command("socket_vmnet2", sock, "--pidfile="+filepath.Join(dir, "pid"))
	c.Args = append([]string{"/bin/sh", "-c", `ulimit -S -f 0 && exec "$0" "$@"`, c.Path}, c.Args[1:]...)
	c.Path = c.Args[0]
	p := runDaemon(t, c, sock)
	p.exits(t, 1)
	p.matches(t, `(?m)^ERROR\| .*pidfile.*File too large`)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Subset(t, []string{sock + ".lock", filepath.Join(dir, "state")}, left) // the latter is for all times
}
