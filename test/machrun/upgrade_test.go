// SPDX-License-Identifier: Apache-2.0

package machrun

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

// patience is how long something may take on a loaded machine.
const patience = time.Minute

// buildDarwin builds a program for macOS.
func buildDarwin(t *testing.T, pkg string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(pkg))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, pkg)
	build.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// A daemon is the program for macOS on the simulator.
type daemon struct {
	*exec.Cmd
	program, socket string
	control         *Control
	log             bytes.Buffer
}

// start starts a daemon and waits until it serves.
func startDaemon(t *testing.T, program string, env ...string) *daemon {
	t.Helper()
	dir := t.TempDir()
	d := &daemon{program: program, socket: filepath.Join(dir, "socket")}
	var err error
	d.control, err = Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.control.Close() })
	d.Cmd = exec.CommandContext(t.Context(), Program(t), program, "--vmnet-gateway=192.168.105.1", "--state-dir="+dir, d.socket)
	d.Env = append(os.Environ(), "MACHRUN_DIR="+dir, "MACHRUN_VMNET="+vmnetsim.Library(t, vmnetsim.Full), "MACHRUN_VMNET_DIR="+dir)
	d.Env = append(d.Env, env...)
	d.Stderr = &d.log
	require.NoError(t, d.Start())
	require.Eventually(t, func() bool {
		c, err := net.Dial("unix", d.socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, patience, 10*time.Millisecond)
	return d
}

// upgrade upgrades the daemon in place. One that hangs is killed, as it does not heed SIGTERM any more.
func (d *daemon) upgrade(t *testing.T) ([]byte, error) {
	timer := time.AfterFunc(patience, func() { _ = d.Process.Kill() })
	defer timer.Stop()
	cmd := exec.CommandContext(t.Context(), d.Path, d.program, "upgrade", d.socket)
	cmd.Env = d.Env
	return cmd.CombinedOutput()
}

// TestDaemon starts the daemon as it ships for macOS.
func TestDaemon(t *testing.T) {
	t.Parallel()
	program := buildDarwin(t, "../../cmd/socket_vmnet2")
	t.Run("upgrades", func(t *testing.T) {
		t.Parallel()
		testUpgrades(t, program)
	})
	for _, processors := range []string{"GOMAXPROCS=1", "GOMAXPROCS=2"} { // the exec has the only one, or one of two
		t.Run("hanging exec, "+processors, func(t *testing.T) {
			t.Parallel()
			testHangingExec(t, program, processors)
		})
	}
}

// testUpgrades has clients come and go all the time while the daemon is upgraded in place. With Go 1.26
// an upgrade hung for ever now and then as long as the framework's threads ran code of Go's, which is therefore counted too:
// see docs/upstream.md.
func testUpgrades(t *testing.T, program string) {
	const upgrades = 100
	d := startDaemon(t, program)
	defer func() {
		_ = d.Process.Signal(syscall.SIGTERM)
		assert.NoError(t, d.Wait(), "%s", d.log.Bytes())
	}()
	var came atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for n := range 4 {
		wg.Go(func() { comeAndGo(ctx, d.socket, byte(n), &came) })
	}
	for n := range upgrades {
		out, err := d.upgrade(t)
		require.NoError(t, err, "upgrade %d of %d: %s", n+1, upgrades, out)
	}
	t.Logf("%d upgrades, %d clients", upgrades, came.Load())
	assert.Greater(t, came.Load(), int64(upgrades))
	assert.Zero(t, d.control.ForeignEntries.Load(), "threads of the framework's that ran code of Go's")
	assert.Zero(t, d.control.KilledNobody.Load(), "threads that were signalled after their end")
}

// comeAndGo connects and sends a frame, again and again.
func comeAndGo(ctx context.Context, socket string, n byte, came *atomic.Int64) {
	hello := make([]byte, 60)
	copy(hello, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 1, n, 0x88, 0xb5})
	for ctx.Err() == nil {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_, err = c.Write(frame.Append(nil, hello))
			select {
			case <-time.After(rand.N(100 * time.Millisecond)): // some are there at an upgrade, some start or stop just then
			case <-ctx.Done():
			}
			_ = c.Close()
		}
		if err == nil {
			came.Add(1)
		}
	}
}

// testHangingExec has the exec of an upgrade take for ever, with the lock that Go's runtime holds then: the system ends the daemon, and its
// guard stops in order.
func testHangingExec(t *testing.T, program, processors string) {
	d := startDaemon(t, program, processors)
	d.control.SlowExecve(10*time.Minute, 2) // before it come the check of the new program and the guard
	_, err := d.upgrade(t)
	require.Error(t, err)
	require.EqualError(t, d.Wait(), "signal: alarm clock", "%s", d.log.Bytes())
	assert.NoFileExists(t, d.socket)
	assert.NoDirExists(t, d.socket+".d")
}
