// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// killDaemon kills the daemon of a keeper and waits for the next one.
func (p *process) killDaemon(t *testing.T) {
	t.Helper()
	s, _ := p.status(t)
	require.NotEqual(t, p.Process.Pid, s.Daemon.PID, "it has a keeper")
	require.NoError(t, syscall.Kill(s.Daemon.PID, syscall.SIGKILL))
	p.says(t, "the daemon has failed; starting it again")
	p.ready(t)
}

// held is how many sockets and files in memory a keeper has.
func (p *process) held(t *testing.T) (n int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", p.Process.Pid)
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range all {
		if to, _ := os.Readlink(filepath.Join(dir, e.Name())); strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "/memfd:") {
			n++
		}
	}
	return n
}

// TestKeeper: a daemon that is killed costs its clients on datagrams a moment, and those on streams an end in order. A second crash is
// the end.
func TestKeeper(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	p := startOpen(t, "--keeper", "--pidfile="+pid)
	guests := map[string]*fakeguest.Guest{}
	for _, way := range p.ways() {
		guests[way.Name] = over(t, way)
		_, err := guests[way.Name].Configure()
		require.NoError(t, err, way.Name)
	}
	if runtime.GOOS == "linux" { // its pair, two shared sockets, three streams, and what four clients passed or got, one with a lifeline
		require.Eventually(t, func() bool { return p.held(t) == 2+2+3+2*4+1 }, patience, time.Millisecond, "%d", p.held(t))
	} else { // nothing tells
		time.Sleep(2 * time.Second)
	}
	p.killDaemon(t)
	p.says(t, "did not end in order clients_that_go_on=4 streams_closed=3")
	for name, g := range guests {
		if strings.Contains(name, "stream") {
			require.Eventually(t, func() bool { return g.Err() != nil }, patience, time.Millisecond, name)
			require.ErrorIs(t, g.Err(), io.EOF, "%s: not a reset", name)
			continue
		}
		_, err := g.Configure()
		require.NoError(t, err, "%s: %v", name, g.Err())
	}
	b, err := os.ReadFile(pid)
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(p.Process.Pid), strings.TrimSpace(string(b)))
	_, stderr, err := p.upgrade(t)
	require.NoError(t, err, stderr)
	for starts := 2; p.alive(); starts++ { // on a slow machine the next crash may not come within seconds, but the one after it does
		s, _ := p.status(t)
		require.NoError(t, syscall.Kill(s.Daemon.PID, syscall.SIGKILL))
		require.Eventually(t, func() bool {
			return !p.alive() || strings.Count(p.stderr.String(), "starting it again") == starts && visit(p.sock) == nil
		}, patience, time.Millisecond)
	}
	p.exits(t, 1)
	p.says(t, "not started again")
}

// TestKeeperEnds: a keeper that is told to stop has the daemon stop in order, and so does its own end.
func TestKeeperEnds(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"told": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			p := startOpen(t, "--keeper")
			_, err := over(t, p.stream()).Configure()
			require.NoError(t, err)
			p.killDaemon(t)
			p.describes(t, func(s status.Status) bool { return s.Daemon.PID != 0 })
			code, _ := p.signal(t, sig)
			if sig == syscall.SIGTERM {
				assert.Zero(t, code)
			}
			require.Eventually(t, func() bool { _, err := os.Lstat(p.sock); return err != nil }, patience, time.Millisecond)
			assert.NoDirExists(t, p.sock+".d")
		})
	}
}
