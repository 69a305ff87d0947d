// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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
	stop := beside(t, newFlow("stream to datagram", s1, g), newFlow("path to stream", s2, s1))
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
	time.Sleep(3 * time.Second)
	used = p.cpu(t) - used
	t.Logf("%v of processor time in %v without descriptors", used, time.Since(began).Round(time.Millisecond))
	assert.Less(t, used, time.Since(began)/4, "a busy loop")
	assert.LessOrEqual(t, strings.Count(p.stderr.String(), "accepting a connection failed"), 6, "it is not said again and again")
	runFlows(t, 500, newFlow("stream to datagram", s1, g), newFlow("path to stream", s2, s1))

	p.limit(t, unix.RLIMIT_NOFILE, was)
	introduce(t, append(late, s1)...)
	assert.NoError(t, <-refused, "it had to wait, no more")
	runFlows(t, 500, newFlow("to one that had to wait", s1, late[4]))
}

// fullDisk is how a file system comes to be full. The daemon is run in a mount namespace of its own, with one at dir.
const fullDisk = `mount -t tmpfs -o size=64k,mode=700 tmpfs "$DIR" && mkdir -m 700 "$DIR/state" && : >"$DIR/log" && head -c 1M /dev/zero >"$DIR/fill" 2>/dev/null
exec "$0" "$@" 2>"${LOG:-/dev/stderr}"`

// noWriting is how a process can write to no file.
const noWriting = `ulimit -S -f 0 && mkdir -m 700 "$DIR/state" && : >"$DIR/log" && exec "$0" "$@" 2>"${LOG:-/dev/stderr}"`

// A disk is a way to a directory that nothing can be written in.
type disk struct {
	script string
	says   string // the system, about a write
	mount  bool   // it takes root
}

// disks are those there are, by name.
var disks = map[string]disk{
	"full":    {fullDisk, "No space left on device", true},
	"limited": {noWriting, "File too large", false},
}

// onDisks runs test with each of them that this user can make.
func onDisks(t *testing.T, test func(t *testing.T, d disk)) {
	t.Helper()
	for name, d := range disks {
		if !d.mount || os.Geteuid() == 0 && canMount() {
			t.Run(name, func(t *testing.T) { test(t, d) })
		}
	}
}

// run has c run with dir on the disk, and its log in the file log unless that is empty.
func (d disk) run(c *exec.Cmd, dir, log string) *exec.Cmd {
	c.Args = append([]string{"/bin/sh", "-c", d.script}, append([]string{c.Path}, c.Args[1:]...)...)
	c.Path = c.Args[0]
	c.Env = append(os.Environ(), "DIR="+dir, "LOG="+log)
	if d.mount {
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	return c
}

// TestDiskFullForState: it costs one warning.
func TestDiskFullForState(t *testing.T) {
	onDisks(t, func(t *testing.T, d disk) {
		sock, full := filepath.Join(shortDir(t), "s"), stateRoot(t)
		p := runDaemon(t, d.run(command("socket_vmnet2", sock, gatewayFlag, "--state-dir="+filepath.Join(full, "state")), full, ""), sock)
		p.ready(t)
		for n := range byte(3) {
			g := guest(t, p, n+1)
			_, err := g.Configure()
			require.NoError(t, err)
			require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "state could not be saved") },
				patience, 10*time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond) // the last one's lease was to be saved by now
		p.stop(t)
		assert.Equal(t, 1, strings.Count(p.stderr.String(), "state could not be saved"), p.stderr)
		p.says(t, d.says)
	})
}

// TestDiskFullForLog: the daemon serves and stops as ever. What is lost is counted, and said once there is room.
func TestDiskFullForLog(t *testing.T) {
	onDisks(t, func(t *testing.T, d disk) {
		sock, full := filepath.Join(shortDir(t), "s"), shortDir(t)
		log := filepath.Join(full, "log")
		p := runDaemon(t, d.run(command("socket_vmnet2", sock), full, log), sock)
		p.ready(t)
		p.talkers(t).check("serving")
		inside := fmt.Sprintf("/proc/%d/root%s", p.Process.Pid, log)
		if d.mount {
			require.NoError(t, os.Remove(filepath.Join(filepath.Dir(inside), "fill")))
		} else {
			p.limit(t, unix.RLIMIT_FSIZE, unix.RLIM_INFINITY)
		}
		require.Eventually(t, func() bool {
			c, err := net.Dial("unix", sock)
			require.NoError(t, err)
			_ = c.Close()
			b, err := os.ReadFile(inside)
			return err == nil && bytes.Contains(b, []byte("WARN | log lines were lost, they could not be written lines="))
		}, patience, 10*time.Millisecond)
		p.stop(t)
	})
}

// TestDiskFullForPidfile: the daemon does not start, says why, and leaves nothing.
func TestDiskFullForPidfile(t *testing.T) {
	onDisks(t, func(t *testing.T, d disk) {
		dir, full := shortDir(t), shortDir(t)
		sock := filepath.Join(dir, "s")
		// The mount is gone with the shell, which lists what is left there.
		d.script = strings.Replace(d.script, "exec ", "", 1) + `; code=$?; echo left: $(ls -A "$DIR"); exit $code`
		p := runDaemon(t, d.run(command("socket_vmnet2", sock, "--pidfile="+filepath.Join(full, "pid")), full, ""), sock)
		<-p.ended
		assert.Equal(t, 1, p.ProcessState.ExitCode())
		p.matches(t, `(?m)^ERROR\| .*pidfile.*`+d.says)
		assert.Regexp(t, `^left: (fill )?log state\n$`, p.stdout.String())
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		assert.Subset(t, []string{sock + ".lock", filepath.Join(dir, "state")}, left) // the latter is for all times
		kept, err := filepath.Glob(filepath.Join(dir, "state", "*"))
		require.NoError(t, err)
		assert.Empty(t, kept)
	})
}
