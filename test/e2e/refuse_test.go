// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBridgedNeedsMacOS: what cannot work here says so, ends with code 1 and leaves nothing.
func TestBridgedNeedsMacOS(t *testing.T) {
	l := newLab(t)
	socket, pidfile := l.Path("socket_vmnet"), l.Path("pid")
	r, err := l.RunDaemon(within(t, patience), daemonOld,
		"--vmnet-mode=bridged", "--vmnet-interface=en0", "--pidfile="+pidfile, socket)
	require.NoError(t, err)
	assert.Equal(t, 1, r.Code)
	assert.Regexp(t, `(?m)^ERROR\| .*bridged.*macOS`, r.Output)
	for _, f := range []string{socket, pidfile} {
		_, err := os.Lstat(f)
		assert.ErrorIs(t, err, os.ErrNotExist)
	}
}
