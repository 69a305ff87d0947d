// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// probeVar makes the test binary the command that the tests run.
const probeVar = "TEST_EXEC_PROBE"

func init() {
	if os.Getenv(probeVar) != "" {
		probe()
	}
}

// probeText is in the probe's frame.
const probeText = "from the command"

// An execReport is what the probe sees of its world.
type execReport struct {
	PID     int
	Args    []string
	Open    []int          // descriptors from 3 on that were inherited
	Kinds   map[int]string // those of them and of stdin that are sockets
	Waits   map[int]bool   // those of them that are in blocking mode
	Pipe    bool           // SIGPIPE ends it
	SendErr string
}

// probe reports on stdout and sends a frame on its first socket.
func probe() {
	r := execReport{PID: os.Getpid(), Args: os.Args[1:], Kinds: map[int]string{}, Waits: map[int]bool{}}
	for fd := range 64 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 || fd == 1 || fd == 2 {
			continue // not there, or the Go runtime's own
		}
		if fd > 2 {
			r.Open = append(r.Open, fd)
		}
		kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
		if err != nil {
			continue
		}
		mode, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		r.Waits[fd] = mode&unix.O_NONBLOCK == 0
		r.Kinds[fd] = map[int]string{unix.SOCK_STREAM: "stream", unix.SOCK_DGRAM: "dgram"}[kind]
		if len(r.Kinds) > 1 {
			continue
		}
		b := wire(0, 0xec, probeText)
		if kind == unix.SOCK_DGRAM {
			b = b[frame.PrefixLen:]
		}
		if _, err := unix.Write(fd, b); err != nil {
			r.SendErr = err.Error()
		}
	}
	r.Pipe = exec.Command("/bin/sh", "-c", "kill -PIPE $$").Run() != nil
	_ = json.NewEncoder(os.Stdout).Encode(r)
	os.Exit(7)
}

// onlyStandard has the test's own commands inherit nothing that whatever started the tests has left open.
var onlyStandard = sync.OnceFunc(func() {
	for fd := 3; fd < 256; fd++ {
		unix.CloseOnExec(fd)
	}
})

// execCmd is the command line `socket_vmnet2 exec args...`.
func execCmd(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	onlyStandard()
	c := exec.CommandContext(t.Context(), filepath.Join(binaries, "socket_vmnet2"), append([]string{"exec"}, args...)...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DEBUG=") {
			c.Env = append(c.Env, e)
		}
	}
	return c
}

// outcome runs c to its end.
func outcome(t *testing.T, c *exec.Cmd) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if !errors.As(err, new(*exec.ExitError)) {
		require.NoError(t, err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// runProbe runs the probe as the command of a command line. What is in front of its report is returned as well.
func runProbe(t *testing.T, c *exec.Cmd) (r execReport, before string) {
	t.Helper()
	c.Env = append(c.Env, probeVar+"=1")
	code, stdout, stderr := outcome(t, c)
	require.Equal(t, 7, code, "the command's exit code: %s", stderr)
	assert.Empty(t, stderr, "nothing is logged when all went well")
	lines := strings.SplitAfter(stdout, "\n")
	require.GreaterOrEqual(t, len(lines), 2, stdout)
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-2]), &r), stdout)
	assert.Equal(t, c.Process.Pid, r.PID, "the same process")
	assert.Empty(t, r.SendErr)
	return r, strings.Join(lines[:len(lines)-2], "")
}

// testBinary is the probe.
func testBinary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

func TestExec(t *testing.T) {
	p := startOpen(t)
	tk := p.talkers(t)
	for _, c := range []struct {
		name, kind string
		args       []string
	}{
		{"stream by default", "stream", nil},
		{"stream", "stream", []string{"--stream"}},
		{"dgram", "dgram", []string{"--dgram", "--mac=52:54:00:AB:CD:EF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(c.args, "--name=the probe", p.sock, "--", testBinary(t), "a b", "", "--", "fd={fd},mac={mac}", "{fd}{fd}{x}")
			r, _ := runProbe(t, execCmd(t, args...))
			assert.Equal(t, []int{3, 4}, r.Open)
			assert.Equal(t, map[int]string{3: c.kind, 4: "stream"}, r.Kinds)
			assert.Equal(t, map[int]bool{3: true, 4: true}, r.Waits)
			require.Len(t, r.Args, 5)
			assert.Equal(t, []string{"a b", "", "--"}, r.Args[:3])
			mac, ok := strings.CutPrefix(r.Args[3], "fd=3,mac=")
			require.True(t, ok, r.Args[3])
			_, err := net.ParseMAC(mac)
			require.NoError(t, err)
			assert.True(t, c.name != "dgram" || mac == "52:54:00:ab:cd:ef", mac)
			assert.Equal(t, "33{x}", r.Args[4])
			assert.True(t, r.Pipe, "SIGPIPE is as always")
			tk.a.receive(probeText)
		})
	}
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "attach connection closed") },
		patience, 5*time.Millisecond, "the command's end is the session's: %s", p.stderr)
	p.says(t, "via=attach transport=dgram")
}

// TestExecPlaces has descriptors of the caller where ours would be.
func TestExecPlaces(t *testing.T) {
	p := startOpen(t)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	for _, c := range []struct {
		name      string
		inherited int // from 3 on
		args      []string
		command   []string
		open      []int
		link      int
	}{
		{"another number", 0, []string{"--fd=9"}, []string{"{fd}"}, []int{4, 9}, 9},
		{"the lifeline's usual one", 0, []string{"--fd", "4"}, []string{"{fd}"}, []int{4, 5}, 4},
		{"3 to 6 are taken", 4, nil, []string{"x{fd}y"}, []int{3, 4, 5, 6, 7, 8}, 7},
		{"3 is taken and another one asked for", 1, []string{"--fd=8"}, []string{"8"}, []int{3, 4, 8}, 8},
		{"in place of stdin", 0, []string{"--fd=0"}, []string{"{fd}"}, []int{4}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append(append(c.args, "--dgram", p.sock, "--", testBinary(t)), c.command...)
			cmd := execCmd(t, args...)
			for range c.inherited {
				cmd.ExtraFiles = append(cmd.ExtraFiles, null)
			}
			r, _ := runProbe(t, cmd)
			assert.Equal(t, c.open, r.Open)
			assert.Contains(t, r.Args[0], fmt.Sprint(c.link))
			assert.Equal(t, "dgram", r.Kinds[c.link])
		})
	}
	for _, c := range []struct {
		name string
		args []string
		says []string
	}{
		{"3 is taken and the command cannot know", nil, []string{`descriptor 3 is taken by "/dev/null"`, "--fd=4", "{fd}"}},
		{"the one that was asked for is taken", []string{"--fd=3"}, []string{"--fd=3", `is taken by "/dev/null"`, "--fd=4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := execCmd(t, append(c.args, p.sock, "--", "false")...)
			cmd.ExtraFiles = []*os.File{null}
			code, stdout, stderr := outcome(t, cmd)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			for _, s := range c.says {
				assert.Contains(t, stderr, s)
			}
		})
	}
}

func TestExecJSON(t *testing.T) {
	p := startOpen(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "reply")
	const id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	check := func(t *testing.T, line, id, mac string) {
		t.Helper()
		reply, err := proto.DecodeReply([]byte(line))
		require.NoError(t, err, line)
		assert.True(t, strings.HasSuffix(line, "}\n"))
		assert.Equal(t, proto.Stream, reply.Transport)
		assert.Equal(t, "usernet", reply.Backend)
		assert.Equal(t, 1500, reply.MTU)
		assert.Equal(t, 1514, reply.MaxPacketSize)
		assert.True(t, strings.EqualFold(id, reply.InterfaceID), reply.InterfaceID)
		assert.Equal(t, reply.MACAddress, mac, "{mac} is the interface's")
	}
	t.Run("a file", func(t *testing.T) {
		require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte("x"), 5000), 0o600))
		r, before := runProbe(t, execCmd(t, "--json", file, "--interface-id", id, p.sock, "--", testBinary(t), "{mac}"))
		assert.Empty(t, before)
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		check(t, string(b), id, r.Args[0])
	})
	t.Run("stdout", func(t *testing.T) {
		other := strings.ToUpper(strings.Replace(id, "6", "7", 1)) // the one before may not have left yet
		r, before := runProbe(t, execCmd(t, "--json=-", "--interface-id="+other, p.sock, "--", testBinary(t), "{mac}"))
		check(t, before, other, r.Args[0])
	})
	t.Run("a link", func(t *testing.T) {
		link := filepath.Join(dir, "link")
		require.NoError(t, os.Symlink("elsewhere", link))
		code, _, stderr := outcome(t, execCmd(t, "--json", link, p.sock, "--", "true"))
		if os.Geteuid() != 0 {
			assert.Zero(t, code)
			assert.FileExists(t, filepath.Join(dir, "elsewhere"))
			return
		}
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "is a link")
		assert.NoFileExists(t, filepath.Join(dir, "elsewhere"))
	})
	t.Run("a directory that is not there", func(t *testing.T) {
		code, _, stderr := outcome(t, execCmd(t, "--json=/nowhere/x", p.sock, "--", "true"))
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "/nowhere/x: No such file or directory")
	})
}

// TestExecWithoutAttach: a daemon without the socket is good for what socket_vmnet_client can do.
func TestExecWithoutAttach(t *testing.T) {
	p := start(t, "--runtime-dir=none")
	assert.NoDirExists(t, p.sock+".d")
	tk := p.talkers(t)
	r, _ := runProbe(t, execCmd(t, p.sock, "--", testBinary(t), "{fd}"))
	assert.Equal(t, []int{3}, r.Open, "no lifeline")
	assert.Equal(t, map[int]bool{3: true}, r.Waits)
	assert.Equal(t, []string{"3"}, r.Args)
	tk.a.receive(probeText)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--dgram", p.sock, "--", "true"}, "--runtime-dir"},
		{[]string{"--mac=52:54:00:00:00:01", p.sock, "--", "true"}, "--runtime-dir"},
		{[]string{"--json=-", p.sock, "--", "true"}, "--runtime-dir"},
		{[]string{"--interface-id=6ba7b810-9dad-41d1-80b4-00c04fd430c8", p.sock, "--", "true"}, "--runtime-dir"},
		{[]string{p.sock, "--", "true", "{mac}"}, "--mac"},
	} {
		code, stdout, stderr := outcome(t, execCmd(t, c.args...))
		assert.Equal(t, 1, code, "%q", c.args)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, c.says, "%q", c.args)
	}
}

func TestExecErrors(t *testing.T) {
	p := startOpen(t)
	dir := vnettest.ShortDir(t)
	noexec := filepath.Join(dir, "noexec")
	require.NoError(t, os.WriteFile(noexec, []byte("x"), 0o644))
	script := filepath.Join(dir, "script")
	require.NoError(t, os.WriteFile(script, []byte("exit 5\n"), 0o755))
	long := "/" + strings.Repeat("x", 100)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no daemon", []string{dir + "/none", "--", "true"}, 1, "no daemon runs at " + dir + "/none"},
		{"path too long", []string{long, "--", "true"}, 1, "too long"},
		{"no such command", []string{p.sock, "--", "no-such-command"}, 127, `run "no-such-command": No such file or directory`},
		{"no such file", []string{p.sock, "--", "/nowhere/x"}, 127, `run "/nowhere/x": No such file or directory`},
		{"not executable", []string{p.sock, "--", noexec}, 126, "Permission denied"},
		{"a directory", []string{p.sock, "--", "/"}, 126, "Permission denied"},
		{"script without interpreter line", []string{p.sock, "--", script}, 5, ""},
		{"without --", []string{p.sock, "sh", "-c", "exit 6"}, 6, ""},
		{"socket's directory", []string{p.sock + ".d", "--", "sh", "-c", "exit 8"}, 8, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := outcome(t, execCmd(t, c.args...))
			assert.Equal(t, c.code, code, stderr)
			if c.says == "" {
				assert.Empty(t, stderr)
			} else {
				assert.Contains(t, stderr, c.says)
			}
			assert.Empty(t, stdout)
		})
	}
}

// TestExecRefusesThePollersNumber: one of the first numbers behind the eight that package lowfd keeps, where no thread can have
// descriptors of its own. It would work four times in five.
func TestExecRefusesThePollersNumber(t *testing.T) {
	p, refused := startOpen(t), 0
	for fd := 11; fd <= 13; fd++ { // the first, unless a file was open for a moment when the poller was made
		code, _, stderr := outcome(t, execCmd(t, fmt.Sprintf("--fd=%d", fd), p.sock, "--", "true"))
		if code != 0 {
			require.Equal(t, 1, code, stderr)
			require.Contains(t, stderr, "choose another one, such as --fd=3")
			refused++
		}
	}
	require.Equal(t, runtime.GOOS != "linux", refused > 0)
}

// TestExecLeavesTheRuntimeAlone: whatever number the link or the lifeline gets, it is never that of the Go runtime's poller,
// whose threads run on until exec. A program that overwrites it ends with "netpoll failed", one time in five.
func TestExecLeavesTheRuntimeAlone(t *testing.T) {
	p := startOpen(t)
	for _, c := range []struct {
		name  string
		debug string // GODEBUG: which files the runtime has open decides where its poller is
	}{
		{"as it is", ""},
		{"no files of the control group", "containermaxprocs=0,updatemaxprocs=0"},
	} {
		for fd := 3; fd <= 6; fd++ {
			t.Run(fmt.Sprintf("%s, descriptor %d", c.name, fd), func(t *testing.T) {
				for range 5 {
					cmd := execCmd(t, fmt.Sprintf("--fd=%d", fd), p.sock, "--", "true")
					if c.debug != "" {
						cmd.Env = append(cmd.Env, "GODEBUG="+c.debug)
					}
					code, _, stderr := outcome(t, cmd)
					require.Zero(t, code, stderr)
				}
			})
		}
	}
}
