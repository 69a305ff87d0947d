// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// TestDaemonUpgraded has machines go on with the daemon's next image, one that connected by a path and one with a descriptor.
// Neither they nor their helpers notice.
func TestDaemonUpgraded(t *testing.T) {
	d := startDaemon(t, "")
	path := filepath.Join(shortDir(t), "s")
	h := runHelper(t, nil, nil, "--daemon", d.socket, "--socket", path)
	vm1 := vfkit(t, path, h.info().MACAddress, true)
	ours, theirs := pair(t, proto.Datagram)
	h2 := runHelper(t, nil, []*os.File{theirs}, "--daemon", d.socket, "--fd", "3")
	theirs.Close()
	vm2 := passedTo(t, ours, h2.info().MACAddress)
	addr, addr2 := lease(t, vm1), lease(t, vm2)
	for range 3 {
		out, err := exec.CommandContext(t.Context(), filepath.Join(built, "bin/socket_vmnet2"), "upgrade", d.socket).CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "2 clients kept")
		for _, to := range []struct {
			from *fakeguest.Guest
			ping func() error
		}{
			{vm1, func() error { _, err := vm1.Ping(addr2.Addr(), 1); return err }},
			{vm2, func() error { _, err := vm2.Ping(addr.Addr(), 1); return err }},
		} {
			require.NoError(t, to.ping())
			assert.NoError(t, to.from.Err())
		}
	}
	assert.Equal(t, addr, lease(t, vm1), "the same lease")
	for _, h := range []*helper{h, h2} {
		assert.NotContains(t, h.stderr.String(), "stopped", "the helper noticed")
		assert.Equal(t, 0, h.stop(), "its end ends the session, as before")
	}
}
