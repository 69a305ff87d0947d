// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a person reads, from a dry run to the way back.
func TestInstallReports(t *testing.T) {
	from, root := t.TempDir(), t.TempDir()
	for _, name := range []string{"socket_vmnet", "socket_vmnet2", "socket_vmnet_client", "vmnet-helper"} {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte("#!/bin/sh\necho v1.0\n"), 0o755))
	}
	const job = "Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist"
	require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(job)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, job), []byte("<plist><dict><key>ProgramArguments</key><array><string>/opt/socket_vmnet/bin/socket_vmnet</string><string>/s</string></array></dict></plist>"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "opt/socket_vmnet/bin"), 0o755))
	require.NoError(t, os.Symlink("/elsewhere", filepath.Join(root, "opt/socket_vmnet/bin/socket_vmnet")))

	const plan = `:
  libexec/vmnet-helper     new
  bin/socket_vmnet_client  new
  bin/socket_vmnet         replaced by a real file; the link to /elsewhere is in the backup
  bin/socket_vmnet2        new
What was there before is kept in /opt/socket_vmnet/share/socket_vmnet2/backup.

Now
  start what /Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist runs anew: sudo launchctl kickstart -k system/io.github.lima-vm.socket_vmnet
  Lima's own networks (lima: in lima.yaml): nothing to change; the daemon is the one that is there now after the last instance on its network was
  stopped and one is started: limactl stop NAME && limactl start NAME
To go back: sudo /opt/socket_vmnet/bin/socket_vmnet2 rollback
`
	code, stdout, stderr := call("install", "--root="+root, "--from="+from, "--dry-run")
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Install v1.0 below /opt/socket_vmnet, if it were not a dry run"+plan, stdout)
	code, stdout, stderr = call("install", "--root="+root, "--from="+from)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Install v1.0 below /opt/socket_vmnet"+plan, stdout)

	code, stdout, stderr = call("rollback", "--root="+root)
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "Roll back below /opt/socket_vmnet:\n  libexec/vmnet-helper     removed; there was none\n")
	assert.Contains(t, stdout, "  bin/socket_vmnet         the link to /elsewhere again\n")
	code, stdout, stderr = call("rollback", "--root="+root)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "There is no backup in /opt/socket_vmnet/share/socket_vmnet2: nothing was installed, or it was rolled back.\n", stdout)

	require.NoError(t, os.Chmod(filepath.Join(root, "opt"), 0o777))
	code, stdout, stderr = call("install", "--root="+root, "--from="+from)
	assert.Equal(t, 1, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "ERROR| --prefix=/opt/socket_vmnet: /opt/socket_vmnet is not safe: /opt can be written by everybody (mode 0777)")
}
