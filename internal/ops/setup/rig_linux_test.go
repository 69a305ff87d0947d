// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// insideVariable is set in a test that runs in the rig.
const insideVariable = "SOCKET_VMNET2_RIG"

// patience is how long anything may take on a busy machine.
const patience = 20 * time.Second

// inside reports whether this is the run of the test in the rig: a machine of its own, see testdata/rig.sh, where it is a service of a
// systemd that is process 1. Outside it makes that run, and reports false.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	needRig(t)
	dir, err := os.MkdirTemp("", "service-rig-")
	require.NoError(t, err)
	t.Cleanup(func() { removeRig(t, dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	require.NoError(t, err)
	copyTo(t, self, dir+"/test")
	path, err := program()
	require.NoError(t, err)
	copyTo(t, path, dir+"/socket_vmnet2")
	// systemd ends with the test, with its exit code.
	unit := fmt.Sprintf("[Unit]\nDefaultDependencies=no\nSuccessAction=exit-force\nFailureAction=exit-force\n[Service]\nType=oneshot\n"+
		"Environment=%s=1\nExecStart=/mnt/test -test.v -test.timeout=5m -test.run=^%s$$\nStandardOutput=file:/mnt/out\nStandardError=file:/mnt/out\n",
		insideVariable, t.Name())
	require.NoError(t, os.Mkdir(dir+"/units", 0o755))
	require.NoError(t, os.WriteFile(dir+"/units/test.service", []byte(unit), 0o600))
	runRig(t, dir)
	return false
}

// removeRig removes the directory of a rig. In dir/root is the whole machine, for what runs in the rig. Nothing else should see
// that, but where mounts are shared and this is a chroot they might: so it is removed as an empty directory or not at all.
func removeRig(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(dir + "/root"); err != nil && !os.IsNotExist(err) {
		t.Errorf("%s/root is in use; nothing of %s is removed: %v", dir, dir, err)
		return
	}
	assert.NoError(t, os.RemoveAll(dir))
}

// runRig runs the rig until the test in it has ended.
func runRig(t *testing.T, dir string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "timeout", "--kill-after=10", "240", "unshare", "--mount", "--propagation", "unchanged",
		"/bin/sh", "testdata/rig.sh", dir, "/lib/systemd/systemd", "--system", "--unit=test.service", "--log-target=console", "--show-status=no")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it cleans up then
	c.WaitDelay = patience
	c.Env = append(os.Environ(), insideVariable+"=1", "container=test", "SYSTEMD_UNIT_PATH=/etc/systemd/system")
	console, err := c.CombinedOutput()
	out, _ := os.ReadFile(dir + "/out")
	t.Log(string(out))
	assert.NoError(t, err, "in the rig:\n%s", console)
}

// needRig skips where there can be no rig.
func needRig(t *testing.T) {
	t.Helper()
	missing := ""
	if os.Geteuid() != 0 {
		missing = "root"
	}
	for _, file := range []string{"/lib/systemd/systemd", "/usr/bin/unshare"} {
		if _, err := os.Stat(file); err != nil {
			missing = file
		}
	}
	if missing == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no " + missing)
	}
	t.Skip("needs " + missing + ": run it as root, and test/e2e/setup.sh gets the packages")
}

// program builds the program, once.
var program = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "service-build-"); err != nil {
		return "", err
	}
	path = built + "/socket_vmnet2"
	return path, lab.BuildGo(context.Background(), "./cmd/socket_vmnet2", path)
})

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o755))
}
