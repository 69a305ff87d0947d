// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package fakevm runs the fake VMs of test/perf: that frames flow through every relay and that nothing is left of them, not how
// fast they are.
package fakevm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
	"github.com/socket-vmnet2/socket_vmnet2/test/perf/fakevm"
	"github.com/socket-vmnet2/socket_vmnet2/test/rounds"
)

const patience = time.Minute

// programs is where daemon puts what it builds.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "fakevm-bin-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(programs)
		os.Exit(code)
	}))
}

// measure runs the fake VMs, which make their files in a directory that is returned. Where the machine has not what they need the
// test is skipped, but not in CI.
func measure(ctx context.Context, t *testing.T, o fakevm.Options) (f rounds.File, dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("TMPDIR", dir)
	f, err = fakevm.Run(ctx, o)
	if errors.Is(err, fakevm.ErrUnable) {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return f, dir, err
}

// buildDaemon does so once. Its name decides which options the daemon has.
var buildDaemon = sync.OnceValues(func() (string, error) {
	file := filepath.Join(programs, "socket_vmnet2")
	return file, lab.BuildGo(context.Background(), "./cmd/socket_vmnet2", file)
})

func daemon(t *testing.T) string {
	t.Helper()
	file, err := buildDaemon()
	require.NoError(t, err)
	return file
}

// nothingLeft checks that there is no process, no file, and no thread in a namespace of its own.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, files)
	assert.Empty(t, descendants(t, os.Getpid()))
	own, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	assert.Eventually(t, func() bool {
		threads, _ := filepath.Glob("/proc/self/task/*/ns/net")
		for _, thread := range threads {
			if ns, err := os.Readlink(thread); err == nil && ns != own {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond, "a thread is still in a namespace of its own")
}

// descendants are the processes below process pid.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	all, err := descend(pid)
	require.NoError(t, err)
	return all
}

func descend(pid int) (all []int, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	for _, thread := range threads {
		children, _ := os.ReadFile(thread)
		for child := range strings.FieldsSeq(string(children)) {
			n, err := strconv.Atoi(child)
			if err != nil {
				return nil, err
			}
			below, err := descend(n)
			if err != nil {
				return nil, err
			}
			all = append(append(all, n), below...)
		}
	}
	return all, nil
}

func TestEveryKind(t *testing.T) {
	kinds := []string{
		"tcp daemon stream single 1500", // and the same beside idle ones
		"tcp daemon stream batch 1500", "tcp daemon stream offload 1500", "tcp floor stream single 32000", "tcp old stream single 9000",
		"tcp daemon passed single 65000", "tcp floor passed single 1500", "tcp daemon path single 1500", "tcp veth 65000",
		"tcp-latency daemon stream single 1500 loaded", "tcp-latency veth", "gateway",
	}
	out := filepath.Join(t.TempDir(), "fake.json")
	f, dir, err := measure(t.Context(), t, fakevm.Options{Daemon: daemon(t), Rounds: 1, Seconds: 1, Only: kinds, Out: out, Command: "a test"})
	require.NoError(t, err)
	nothingLeft(t, dir)

	written, err := rounds.Read(out)
	require.NoError(t, err)
	assert.Equal(t, f.Rounds, written.Rounds)
	assert.NotEmpty(t, f.Machine.Commit)
	assert.Len(t, f.Machine.Programs, 2)
	missing := append([]string{}, kinds...)
	for _, r := range f.Rounds {
		for i, kind := range missing {
			if strings.HasPrefix(r.Setup, kind) {
				missing[i] = "found"
			}
		}
		plausible(t, r)
	}
	assert.Equal(t, len(kinds), strings.Count(strings.Join(missing, " "), "found"), missing)
	table := fakevm.Table(f)
	assert.Contains(t, table, "gateway daemon stream single 1500 client-to-host / gvproxy")
	t.Log("on a machine with other work:\n" + table)
}

// plausible checks what holds on any machine.
func plausible(t *testing.T, r rounds.Round) {
	t.Helper()
	assert.Positive(t, r.Seconds, r.Setup)
	counted := r.Relay != rounds.Direct && !strings.Contains(r.Setup, " offload ")
	assert.Equal(t, counted, r.Frames > 0, r.Setup)
	if r.Trips > 0 {
		assert.Zero(t, r.Bytes, r.Setup)
		assert.Positive(t, r.P50, r.Setup)
		assert.LessOrEqual(t, r.P50, r.P99, r.Setup)
		assert.LessOrEqual(t, r.P99, r.P999, r.Setup)
	} else {
		assert.Greater(t, r.Bytes, uint64(50_000), "%s: the kernel sends ahead about so much", r.Setup)
	}
	if counted {
		assert.GreaterOrEqual(t, r.Frames, r.Trips, r.Setup)
		assert.GreaterOrEqual(t, r.Frames*uint64(r.Frame), r.Bytes, "%s: more bytes than frames have room for", r.Setup)
	}
	if r.Relay == rounds.Direct {
		assert.Zero(t, r.CPUSeconds, r.Setup)
		return
	}
	assert.Positive(t, r.CPUSeconds, r.Setup)
	assert.LessOrEqual(t, r.CPUSeconds, (r.Seconds+patience.Seconds())*float64(runtime.NumCPU()), r.Setup)
	assert.Positive(t, r.Voluntary, r.Setup)
	assert.Positive(t, r.MemoryKiB, r.Setup)
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := cancelAt{text: "round 1 of 9", cancel: func() { time.AfterFunc(time.Second, cancel) }}
	_, dir, err := measure(ctx, t, fakevm.Options{Daemon: daemon(t), Progress: &watch, Seconds: 60, Only: []string{"6 idle"}})
	require.ErrorIs(t, err, context.Canceled)
	nothingLeft(t, dir)
}

// cancelAt calls cancel once a text is written to it.
type cancelAt struct {
	text   string
	cancel func()
}

func (c *cancelAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		c.cancel()
	}
	return len(p), nil
}

func TestRelayEnds(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "socket_vmnet2")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho cannot go on >&2\nexit 3\n"), 0o700))
	f, dir, err := measure(t.Context(), t, fakevm.Options{Daemon: broken, Rounds: 1, Only: []string{"tcp daemon passed single 1500"}})
	require.ErrorContains(t, err, `measure "tcp daemon passed single 1500"`)
	require.ErrorContains(t, err, "socket_vmnet2 has ended by itself (exit status 3)")
	require.ErrorContains(t, err, "cannot go on")
	assert.Empty(t, f.Rounds)
	nothingLeft(t, dir)
}

// TestSignals interrupts the command, and kills it: then nobody is left to end its processes but the kernel.
func TestSignals(t *testing.T) {
	command := filepath.Join(t.TempDir(), "fakevm")
	require.NoError(t, lab.BuildGo(t.Context(), "./test/perf/fakevm/cmd", command))
	program := daemon(t)
	_, _, err := measure(t.Context(), t, fakevm.Options{Daemon: program, Rounds: 1, Only: []string{"tcp veth 65000"}})
	require.NoError(t, err) // the machine has what is needed
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := t.TempDir()
			var said bytes.Buffer
			cmd := exec.Command(command, "--daemon", program, "--seconds", "60", "--only", "tcp daemon stream single 1500 6 idle")
			cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+dir), &said
			require.NoError(t, cmd.Start())
			var below []int
			assert.Eventually(t, func() bool { // the daemon, 8 fake VMs, iperf3 twice
				below = descendants(t, cmd.Process.Pid)
				return len(below) == 11
			}, 3*patience, 10*time.Millisecond, "the measurement has not begun")
			require.NoError(t, cmd.Process.Signal(signal))
			err := cmd.Wait()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			if signal != syscall.SIGKILL {
				assert.Equal(t, 1, exit.ExitCode())
				assert.Contains(t, said.String(), "context canceled")
				files, err := os.ReadDir(dir)
				require.NoError(t, err)
				assert.Empty(t, files)
			}
			for _, pid := range below {
				assert.Eventually(t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || isZombie(pid) },
					patience, 10*time.Millisecond, "process %d is left", pid)
			}
		})
	}
}

// isZombie tells whether a process has ended and waits for whoever adopted it.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
