// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// insideVariable is set in a test that runs in the rig.
const insideVariable = "SOCKET_VMNET2_RIG"

// patience is how long anything may take on a busy machine.
const patience = 20 * time.Second

// The paths in the rig.
const (
	rigProgram = "/opt/socket_vmnet/bin/socket_vmnet2"
	rigEtc     = "/mnt/etc/"
)

// inside reports whether this is the run of the test in the rig: a machine of its own, see testdata/rig.sh. Outside it
// makes that run, and reports false. With systemd it is a service of a systemd that is process 1 there, else it is process 1
// itself, so that what it starts has the parent that services have.
func inside(t *testing.T, systemd bool) bool {
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
	copyTo(t, program(t), dir+"/socket_vmnet2")
	require.NoError(t, os.CopyFS(dir+"/etc", os.DirFS(strings.TrimSuffix(etc, "/"))))

	command := []string{"/mnt/test", "-test.v", "-test.timeout=5m", "-test.run=^" + t.Name() + "$"}
	if systemd {
		unit := fmt.Sprintf("[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nEnvironment=%s=1\nExecStart=%s\n"+
			"ExecStopPost=/bin/sh -c \"echo $${EXIT_STATUS} >/mnt/code\"\nStandardOutput=file:/mnt/out\nStandardError=file:/mnt/out\n", insideVariable, strings.ReplaceAll(strings.Join(command, " "), "$", "$$"))
		require.NoError(t, os.Mkdir(dir+"/units", 0o755))
		require.NoError(t, os.WriteFile(dir+"/units/test.service", []byte(unit), 0o600))
		command = []string{"/lib/systemd/systemd", "--system", "--unit=test.service", "--log-target=console", "--show-status=no"}
	}
	runRig(t, dir, command, systemd)
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

// runRig runs command as process 1 of the rig until the test in it has ended, and then everything in it is killed.
func runRig(t *testing.T, dir string, command []string, systemd bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := []string{"--kill-after=10", "240", "unshare", "--mount", "--propagation", "unchanged", "/bin/sh", "testdata/rig.sh", dir}
	c := exec.CommandContext(ctx, "timeout", append(args, command...)...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it cleans up then
	c.WaitDelay = patience
	c.Env = append(os.Environ(), insideVariable+"=1", "container=test", "SYSTEMD_UNIT_PATH=/etc/systemd/system")
	var console bytes.Buffer
	c.Stdout, c.Stderr = &console, &console
	require.NoError(t, c.Start())
	if !systemd {
		assert.NoError(t, c.Wait(), "in the rig:\n%s", &console)
		t.Log(console.String())
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // it is killed
	}()
	code := ""
	for over := false; !over && code == ""; {
		select {
		case <-ended:
			over = true
		case <-time.After(50 * time.Millisecond):
		}
		b, _ := os.ReadFile(dir + "/code")
		code = strings.TrimSpace(string(b))
	}
	cancel() // and with it everything else in there
	select {
	case <-ended:
	case <-time.After(2 * patience):
		t.Error("the rig does not end")
	}
	out, _ := os.ReadFile(dir + "/out")
	if assert.Equal(t, "0", code, "in the rig:\n%s", out) {
		t.Log(string(out))
		return
	}
	t.Log("console:\n" + console.String())
}

// needRig skips where there can be no rig.
func needRig(t *testing.T) {
	t.Helper()
	missing := ""
	if os.Geteuid() != 0 {
		missing = "root"
	}
	for _, file := range []string{"/lib/systemd/systemd", "/usr/bin/systemd-socket-activate", "/usr/bin/unshare"} {
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
func program(t *testing.T) string {
	t.Helper()
	require.NoError(t, build.err)
	build.once.Do(func() {
		if built, build.err = os.MkdirTemp("", "service-build-"); build.err != nil {
			return
		}
		c := exec.CommandContext(t.Context(), "go", "build", "-o", built+"/socket_vmnet2", "../../../cmd/socket_vmnet2")
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		if err != nil {
			build.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, build.err)
	return built + "/socket_vmnet2"
}

var build struct {
	once sync.Once
	err  error
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o755))
}

// eventually waits for something in the rig.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within " + patience.String() + ": " + what)
		}
	}
}

// A daemon is one that a test has started.
type daemon struct {
	t   *testing.T
	cmd *exec.Cmd
	log bytes.Buffer
}

// startDaemon starts argv, which is the daemon or becomes it.
func startDaemon(t *testing.T, env []string, argv ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)}
	d.cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, env...)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	require.NoError(t, d.cmd.Start())
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	return d
}

// end has the daemon end, and checks that it was glad to.
func (d *daemon) end() {
	d.t.Helper()
	require.NoError(d.t, d.cmd.Process.Signal(syscall.SIGTERM))
	assert.NoError(d.t, d.cmd.Wait(), "exit code 0 after SIGTERM: %s", d.log.String())
}
