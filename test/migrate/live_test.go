// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
)

// patience is how long a busy machine may take.
const patience = 20 * time.Second

// TestRunningDaemon finds a daemon of this machine among its processes, without a staged root, and leaves it alone.
func TestRunningDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "migrate-") // short, for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := t.TempDir()
	socket := filepath.Join(dir, "s")
	daemon := exec.Command(program(), "--backend=usernet", "--vmnet-gateway=10.91.7.1", "--state-dir="+dir, "--pidfile="+filepath.Join(dir, "pid"), socket)
	var log strings.Builder
	daemon.Stderr = &log
	require.NoError(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM)
		_ = daemon.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			err = c.Close()
		}
		return err == nil
	}, patience, 20*time.Millisecond)
	before := snapshot(t, home, true)

	cmd := exec.Command(program(), "migrate", "--json")
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	r := runCommand(t, cmd)
	require.Equal(t, 0, r.code, r.err)
	p := &migrate.Plan{}
	require.NoError(t, json.Unmarshal([]byte(r.out), p))
	found := false
	for _, d := range p.Daemons {
		if d.PID != daemon.Process.Pid {
			continue
		}
		found = true
		assert.Equal(t, socket, d.Socket)
		assert.Equal(t, "10.91.7.0/24", d.Subnet)
		assert.Equal(t, filepath.Join(dir, "pid"), d.Pidfile)
		assert.Equal(t, os.Geteuid(), d.UID)
		assert.Equal(t, "by hand", d.StartedBy)
		assert.True(t, d.Ours)
	}
	assert.True(t, found, "%+v", p.Daemons)
	assert.Equal(t, before, snapshot(t, home, true))
	assert.NoError(t, daemon.Process.Signal(syscall.Signal(0)), "it still runs")
}

// TestHome looks at the one home that it is told, whatever the environment says.
func TestHome(t *testing.T) {
	root := limaManaged("/opt/socket_vmnet/bin/socket_vmnet").with(upstreamBin, tree{
		"/Users/bob/.lima/other/lima.yaml": "networks:\n- socket: /var/run/socket_vmnet\n",
	}).build(t)
	names := func(args ...string) (all []string) {
		r := run(t, append([]string{"--json", "--root=" + root}, args...)...)
		p := &migrate.Plan{}
		require.NoError(t, json.Unmarshal([]byte(r.out), p), r.err)
		for _, m := range p.Machines {
			all = append(all, m.Name)
		}
		return all
	}
	assert.Equal(t, []string{"box", "dev", "other"}, names())
	assert.Equal(t, []string{"other"}, names("--home=/Users/bob"))
	assert.Equal(t, []string{"other"}, names("--home="+root+"/Users/bob/"))

	cmd := exec.Command(program(), "migrate", "--json", "--home="+filepath.Join(root, "Users/bob"))
	cmd.Env = []string{"HOME=/nowhere", "LIMA_HOME=" + filepath.Join(root, "Users/ann/.lima")}
	r := runCommand(t, cmd)
	assert.Contains(t, r.out, `"name": "other"`)
	assert.NotContains(t, r.out, `"name": "dev"`)
}
