// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// binary is the program under test, built by TestMain.
var binary string

// TestMain builds the program once. Called as the command of a test, it is the probe, or what starts the program with a limit.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_LIMIT") != "" {
		limited()
		return
	}
	if os.Getenv("TEST_PROBE") != "" {
		probe()
		return
	}
	// Whatever started the tests may have left files open: they are not to be passed on to the commands.
	for fd := firstFD; fd < 256; fd++ {
		unix.CloseOnExec(fd)
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "svc")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "socket_vmnet_client")
	cmd := exec.Command("go", "build", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// A report is what the probe sees of its world.
type report struct {
	PID      int
	Args     []string
	Env      string
	Sockets  []int // descriptors that are connected unix sockets
	Open     []int // all that were inherited, from 3 on
	Send     int   // SO_SNDBUF of the first socket
	Receive  int
	NoFile   uint64 // soft limit
	WroteErr string
}

// probe reports on stdout and says hello on the first socket.
func probe() {
	r := report{PID: os.Getpid(), Args: os.Args[1:], Env: os.Getenv("TEST_PROBE")}
	for fd := 3; fd < 64; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // not there, or the Go runtime's own
		}
		r.Open = append(r.Open, fd)
		if sa, err := unix.Getpeername(fd); err == nil {
			if _, ok := sa.(*unix.SockaddrUnix); ok {
				r.Sockets = append(r.Sockets, fd)
			}
		}
	}
	if len(r.Sockets) > 0 {
		r.Send, _ = unix.GetsockoptInt(r.Sockets[0], unix.SOL_SOCKET, unix.SO_SNDBUF)
		r.Receive, _ = unix.GetsockoptInt(r.Sockets[0], unix.SOL_SOCKET, unix.SO_RCVBUF)
		if _, err := unix.Write(r.Sockets[0], []byte("hello")); err != nil {
			r.WroteErr = err.Error()
		}
	}
	// The runtime of this probe raises the limit at start, but gives the original one to its own commands.
	out, _ := exec.Command("/bin/sh", "-c", "ulimit -n").Output()
	_, _ = fmt.Sscan(string(out), &r.NoFile)
	_ = json.NewEncoder(os.Stdout).Encode(r)
	os.Exit(7)
}

// A server is a listening socket that collects what its first client sends.
type server struct {
	path string
	got  chan string
}

func serve(t *testing.T) server {
	t.Helper()
	s := server{path: filepath.Join(vnettest.ShortDir(t), "s"), got: make(chan string, 1)}
	ln, err := net.Listen("unix", s.path)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 16)
			n, _ := c.Read(b)
			select {
			case s.got <- string(b[:n]):
			default:
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return s
}

// outcome runs cmd and returns its output and exit code.
func outcome(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errb strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errb
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errb.String(), exit.ExitCode()
	}
	require.NoError(t, err)
	return out.String(), errb.String(), 0
}

// client is the command line `socket_vmnet_client args...` with the probe's variable set and DEBUG not.
func client(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "DEBUG=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "TEST_PROBE=kept as it is")
	return cmd
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

func TestSocketIsFD3(t *testing.T) {
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { _ = null.Close() }()
	large, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.CloseOnExec(large)
	defer func() { _ = unix.Close(large) }()
	require.NoError(t, unix.SetsockoptInt(large, unix.SOL_SOCKET, unix.SO_SNDBUF, 256<<10))
	buffer, err := unix.GetsockoptInt(large, unix.SOL_SOCKET, unix.SO_SNDBUF)
	require.NoError(t, err)
	for _, c := range []struct {
		name      string
		inherited int // files on fd 3 and up that the caller passes on
		socket    int
		open      []int
		warning   string // nothing is logged when all went well
	}{
		{"fd 3 free", 0, 3, []int{3}, ""},
		{"fds 3 to 6 taken", 4, 7, []int{3, 4, 5, 6, 7}, "WARN | descriptor 3 is taken by \"/dev/null\", which the caller passes on, so the connection is descriptor 7: have the command use that, or close 3, by 3>&- in a shell\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			cmd := client(s.path, self(t), "-x", "a b", "--", "")
			for range c.inherited {
				cmd.ExtraFiles = append(cmd.ExtraFiles, null)
			}
			stdout, stderr, code := outcome(t, cmd)
			assert.Equal(t, 7, code, "the command's exit code")
			assert.Equal(t, c.warning, stderr)
			var r report
			require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
			assert.Equal(t, []int{c.socket}, r.Sockets)
			assert.Equal(t, c.open, r.Open)
			assert.Equal(t, "hello", <-s.got)
			assert.Equal(t, []string{"-x", "a b", "--", ""}, r.Args)
			assert.Equal(t, "kept as it is", r.Env)
			assert.Equal(t, cmd.Process.Pid, r.PID, "same process")
			assert.Empty(t, r.WroteErr)
			assert.Equal(t, []int{buffer, buffer}, []int{r.Send, r.Receive})
		})
	}
}

// TestHoleBelow has fd 3 free and fd 4 taken: the socket gets 3 and 4 stays. The limit of open files stays too, which the
// Go runtime raises for itself.
func TestHoleBelow(t *testing.T) {
	s := serve(t)
	cmd := client(s.path, self(t))
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer func() { _ = null.Close() }()
	cmd.ExtraFiles = []*os.File{nil, null}
	cmd.Path, cmd.Env = self(t), append(cmd.Env, "TEST_LIMIT=128")
	stdout, stderr, code := outcome(t, cmd)
	assert.Equal(t, 7, code)
	assert.Empty(t, stderr)
	var r report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
	assert.Equal(t, []int{3}, r.Sockets)
	assert.Equal(t, []int{3, 4}, r.Open)
	assert.Equal(t, uint64(128), r.NoFile)
}

// limited lowers its soft limit of open files and becomes the program. A shell could do that, but it starts nothing for macOS on
// Linux.
func limited() {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	if err == nil {
		_, _ = fmt.Sscan(os.Getenv("TEST_LIMIT"), &l.Cur)
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	}
	if err == nil {
		_ = os.Unsetenv("TEST_LIMIT")
		err = syscall.Exec(os.Args[0], os.Args, os.Environ())
	}
	fmt.Fprintln(os.Stderr, "limited:", err)
	os.Exit(1)
}

func TestBuffersAreNotShrunk(t *testing.T) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 300<<10))
	before, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	require.NoError(t, err)
	proto.SetBuffers(fd, proto.Stream)
	after, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestTexts(t *testing.T) {
	dir := vnettest.ShortDir(t)
	s := serve(t)
	stale := filepath.Join(dir, "stale")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	noexec := filepath.Join(dir, "noexec")
	require.NoError(t, os.WriteFile(noexec, []byte("x"), 0o644))
	long := "/" + strings.Repeat("x", maxSocketPath)
	advice := "No daemon listens there: start it, or give the SOCKET of the one that runs\n"
	usage := "Usage: " + binary + " SOCKET COMMAND [ARGS...]\n"
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, usage},
		{"no command", []string{s.path}, usage},
		{"no command behind --", []string{s.path, "--"}, usage},
		{"options are not known", []string{"--help"}, usage},
		{"no socket", []string{dir + "/none", "true"}, `Failed to connect to "` + dir + "/none\": No such file or directory\n" + advice},
		{"stale socket", []string{stale, "true"}, `Failed to connect to "` + stale + "\": Connection refused\n" + advice},
		{"no socket but a file", []string{noexec, "true"}, `Failed to connect to "` + noexec + "\": Connection refused\n" + advice},
		{"path too long", []string{long, "true"}, `The socket path "` + long + "\" is too long\n"},
		{"no such command", []string{s.path, "no-such-command"}, "Failed to exec \"no-such-command\": No such file or directory\n"},
		{"no such file", []string{s.path, "--", dir + "/x", "y"}, `Failed to exec "` + dir + "/x\": No such file or directory\n"},
		{"not executable", []string{s.path, noexec}, `Failed to exec "` + noexec + "\": Permission denied\n"},
		{"empty command", []string{s.path, ""}, "Failed to exec \"\": No such file or directory\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := outcome(t, client(c.args...))
			assert.Equal(t, 1, code)
			assert.Equal(t, c.want, stderr)
			assert.Empty(t, stdout)
		})
	}
}

// TestPermissionDenied is the text that minikube looks for.
func TestPermissionDenied(t *testing.T) {
	vnettest.NeedRoot(t)
	s := serve(t)
	require.NoError(t, os.Chmod(filepath.Dir(s.path), 0o755))
	require.NoError(t, os.Chmod(s.path, 0o700))
	open := vnettest.ShortDir(t)
	b, err := os.ReadFile(binary)
	require.NoError(t, err)
	copied := filepath.Join(open, "c")
	require.NoError(t, os.WriteFile(copied, b, 0o755))
	cmd := client(s.path, "true")
	cmd.Path = copied
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	_, stderr, code := outcome(t, cmd)
	assert.Equal(t, 1, code)
	assert.Equal(t, `Failed to connect to "`+s.path+"\": Permission denied\n", stderr)
}

func TestDebug(t *testing.T) {
	s := serve(t)
	for _, args := range [][]string{
		{s.path, "sh", "-c", "exit 3"},
		{s.path, "--", "sh", "-c", "exit 3"},
	} {
		cmd := client(args...)
		cmd.Env = append(cmd.Env, "DEBUG=")
		_, stderr, code := outcome(t, cmd)
		assert.Equal(t, 3, code)
		assert.Equal(t, "child_argv[0]: \"sh\"\nchild_argv[1]: \"-c\"\nchild_argv[2]: \"exit 3\"\n", stderr)
	}
}

func TestPathLookup(t *testing.T) {
	s := serve(t)
	dir := vnettest.ShortDir(t)
	for _, d := range []string{"a", "b", "c"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	write("a/tool", "#!/bin/sh\nexit 9\n", 0o644) // not executable: the search goes on
	write("b/tool", "#!/bin/sh\necho b $1\n", 0o755)
	write("c/tool", "#!/bin/sh\necho c $1\n", 0o755)
	write("a/locked", "#!/bin/sh\n", 0o644)
	write("c/plain", "echo no interpreter line $1\n", 0o755)
	write("here", "#!/bin/sh\necho here $1\n", 0o755)
	for _, c := range []struct {
		name, path, command string
		stdout, stderr      string
		code                int
	}{
		{"first executable wins", "a:b:c", "tool", "b x\n", "", 0},
		{"directories that are no directories", "a/tool:nothing:c", "tool", "c x\n", "", 0},
		{"only one that cannot be run", "a:b", "locked", "", "Failed to exec \"locked\": Permission denied\n", 1},
		{"in none", "a:b", "absent", "", "Failed to exec \"absent\": No such file or directory\n", 1},
		{"empty element is the current directory", "a::c", "here", "here x\n", "", 0},
		{"script without interpreter line", "c", "plain", "no interpreter line x\n", "", 0},
		{"slash means no search", "b", "c/tool", "c x\n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := client(s.path, c.command, "x")
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + c.path}
			stdout, stderr, code := outcome(t, cmd)
			assert.Equal(t, c.stdout, stdout)
			assert.Equal(t, c.stderr, stderr)
			assert.Equal(t, c.code, code)
		})
	}
	t.Run("no PATH at all", func(t *testing.T) {
		cmd := client(s.path, "true")
		cmd.Env = []string{}
		_, stderr, code := outcome(t, cmd)
		assert.Zero(t, code)
		assert.Empty(t, stderr)
	})
}

// TestNonBlockingStdin: with it the Go runtime makes its poller before main, at the lowest free number. A program that overwrites
// that ends with "netpoll failed" at times.
func TestNonBlockingStdin(t *testing.T) {
	s := serve(t)
	var p [2]int
	require.NoError(t, unix.Pipe(p[:]))
	require.NoError(t, unix.SetNonblock(p[0], true))
	stdin := os.NewFile(uintptr(p[0]), "stdin")
	defer func() { _, _ = stdin.Close(), unix.Close(p[1]) }()
	for _, fd := range p {
		unix.CloseOnExec(fd)
	}
	for range 50 {
		cmd := client(s.path, "true")
		cmd.Stdin = stdin
		_, stderr, code := outcome(t, cmd)
		require.Zero(t, code, stderr)
	}
}
