// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// limit sets one of the daemon's limits and returns what it was.
func (p *process) limit(t *testing.T, resource int, soft uint64) (was uint64) {
	t.Helper()
	var old unix.Rlimit
	require.NoError(t, unix.Prlimit(p.Process.Pid, resource, nil, &old))
	require.NoError(t, unix.Prlimit(p.Process.Pid, resource, &unix.Rlimit{Cur: soft, Max: old.Max}, nil))
	return old.Cur
}

// cpu is how much processor time the daemon has used.
func (p *process) cpu(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
	var ticks uint64
	for _, s := range fields[11:13] { // utime, stime
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	const perSecond = 100 // USER_HZ
	return time.Duration(ticks) * time.Second / perSecond
}

// TestDescriptorsRunOut: a daemon without descriptors serves the clients it has, spends no time on those that wait, says so
// once, and serves those as soon as it can.
func TestDescriptorsRunOut(t *testing.T) {
	p := startOpen(t)
	s1, s2, g := over(t, p.stream()), over(t, p.unconnected()), over(t, p.attach(proto.Datagram))
	introduce(t, s1, s2, g)
	stop := p.beside(t, [2]*fakeguest.Guest{s1, g}, [2]*fakeguest.Guest{s2, s1})
	was := p.limit(t, unix.RLIMIT_NOFILE, 3) // those that are open stay so

	var late []*fakeguest.Guest
	for range 5 {
		late = append(late, over(t, p.stream()))
	}
	refused := make(chan error, 1)
	go func() {
		l, err := p.attach(proto.Datagram).Dial(t.Context())
		if err == nil {
			err = l.Close()
		}
		refused <- err
	}()
	require.Eventually(t, func() bool {
		return strings.Count(p.stderr.String(), "accepting a connection failed") >= 2
	}, patience, time.Millisecond, "it says so, for each of its sockets")
	stop()

	began, used := time.Now(), p.cpu(t)
	time.Sleep(time.Second)
	used = p.cpu(t) - used
	t.Logf("%v of processor time in %v without descriptors", used, time.Since(began).Round(time.Millisecond))
	assert.Less(t, used, time.Since(began)/4, "a busy loop")
	assert.LessOrEqual(t, strings.Count(p.stderr.String(), "accepting a connection failed"), 6, "it is not said again and again")
	p.limit(t, unix.RLIMIT_NOFILE, was)
	introduce(t, append(late, s1)...)
	assert.NoError(t, <-refused, "it had to wait, no more")
	p.beside(t, [2]*fakeguest.Guest{s1, late[4]})()
}

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
