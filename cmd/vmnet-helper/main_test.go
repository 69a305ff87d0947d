// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// testPatience is how long a test waits for what must happen.
const testPatience = 20 * time.Second

// built is where TestMain has put the programs, in the places of an installation.
var built string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("/tmp", "vh")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = dir
		for out, pkg := range map[string]string{"libexec/vmnet-helper": ".", "bin/socket_vmnet2": "../socket_vmnet2"} {
			build := exec.Command("go", "build", "-ldflags=-X main.comeBack=2s", "-o", filepath.Join(dir, out), pkg)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if text, err := build.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build %s: %v\n%s", pkg, err, text)
				return 1
			}
		}
		// Another user runs some of it.
		for _, d := range []string{"", "libexec", "bin"} {
			if err := os.Chmod(filepath.Join(dir, d), 0o755); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return m.Run()
	}())
}

// A helper is the program under test.
type helper struct {
	*exec.Cmd
	t      *testing.T
	out    *bufio.Reader
	pipe   *os.File // what out reads
	stderr *vnettest.Log
	ended  chan struct{} // closed when it has exited
}

// runHelper starts the program with files as descriptors 3, 4 ...
func runHelper(t *testing.T, env []string, files []*os.File, args ...string) *helper {
	t.Helper()
	h := &helper{Cmd: exec.Command(filepath.Join(built, "libexec/vmnet-helper"), args...), t: t, stderr: &vnettest.Log{}}
	h.Env = append(append(os.Environ(), "XDG_CONFIG_HOME=/nonexistent"), env...)
	h.ExtraFiles = files
	h.Stderr = h.stderr
	stdout, in, err := os.Pipe()
	require.NoError(t, err)
	h.Stdout = in
	require.NoError(t, h.Start())
	in.Close()
	h.out, h.pipe = bufio.NewReader(stdout), stdout
	h.ended = make(chan struct{})
	go func() {
		defer close(h.ended)
		_ = h.Wait()
	}()
	t.Cleanup(func() {
		_ = h.Process.Kill()
		<-h.ended
		stdout.Close()
		if t.Failed() {
			t.Logf("%s\n%s", h.Cmd, h.stderr)
		}
	})
	return h
}

// info reads the line on stdout.
func (h *helper) info() (i info) {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	require.NoError(h.t, err, "%s", h.stderr)
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	require.NoError(h.t, d.Decode(&i))
	return i
}

// exit waits for the end and returns the exit code. There may be nothing left on stdout.
func (h *helper) exit() int {
	h.t.Helper()
	select {
	case <-h.ended:
	case <-time.After(testPatience):
		require.Fail(h.t, "it does not end", "%s", h.stderr)
	}
	rest, _ := io.ReadAll(h.out)
	assert.Empty(h.t, string(rest), "on stdout there is one line at most")
	for line := range strings.Lines(h.stderr.String()) {
		if strings.HasPrefix(line, "\n") || !strings.Contains(line, "[main]") {
			continue // usage
		}
		assert.Regexp(h.t, `^(INFO |WARN |ERROR|DEBUG) \[main\] `, line)
	}
	return h.ProcessState.ExitCode()
}

// stop sends SIGTERM and returns the exit code.
func (h *helper) stop() int {
	h.t.Helper()
	require.NoError(h.t, h.Process.Signal(syscall.SIGTERM))
	return h.exit()
}

// serve starts the program on the socket path, with d as its daemon, which takes the machine on.
func (d *fakeDaemon) serve(path string) (*helper, *taken) {
	d.t.Helper()
	h := runHelper(d.t, nil, nil, "--daemon", d.socket, "--socket", path)
	x := d.next()
	x.answer(d.t, reply)
	h.info()
	return h, x
}

// A fakeDaemon takes descriptors over and answers what a test wants.
type fakeDaemon struct {
	t      *testing.T
	socket string
	ln     *net.UnixListener
	taken  chan *taken
	wg     sync.WaitGroup
}

// taken is one request, with its connection.
type taken struct {
	*net.UnixConn
	request proto.Request
	fd      int
}

// newFake starts one, with SOCKET in a directory of its own.
func newFake(t *testing.T) *fakeDaemon {
	t.Helper()
	d := &fakeDaemon{t: t, socket: filepath.Join(vnettest.ShortDir(t), "s"), taken: make(chan *taken, 1)}
	require.NoError(t, os.Mkdir(d.socket+".d", 0o750))
	var err error
	d.ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: d.socket + ".d/adopt", Net: "unix"})
	require.NoError(t, err)
	d.wg.Go(func() {
		for {
			c, err := d.ln.AcceptUnix()
			if err != nil {
				return
			}
			m, err := proto.ReadMessage(c, proto.MaxLine)
			if err != nil {
				c.Close() // looks whether a daemon listens
				continue
			}
			r, err := proto.DecodeRequest(m.Line)
			assert.NoError(t, err)
			d.taken <- &taken{UnixConn: c, request: r, fd: m.FD}
		}
	})
	t.Cleanup(d.stop)
	return d
}

// stop ends the daemon: there is no listener any more, and nothing is at the path.
func (d *fakeDaemon) stop() {
	d.ln.Close()
	d.wg.Wait()
}

// next waits for a request.
func (d *fakeDaemon) next() *taken {
	d.t.Helper()
	select {
	case x := <-d.taken:
		d.t.Cleanup(x.end)
		return x
	case <-time.After(testPatience):
		require.Fail(d.t, "no request")
		return nil
	}
}

// end ends the session.
func (x *taken) end() {
	if x.fd != proto.None {
		_ = unix.Close(x.fd)
		x.fd = proto.None
	}
	_ = x.Close()
}

// reply is what a shared network answers.
var reply = proto.Reply{
	Version: 1, Transport: proto.Datagram, Backend: "usernet", Mode: "shared", MACAddress: "52:54:00:12:34:56", MTU: 1500,
	MaxPacketSize: 1514, StartAddress: "192.168.105.1", EndAddress: "192.168.105.254", SubnetMask: "255.255.255.0",
}

func (x *taken) answer(t *testing.T, r proto.Reply) {
	t.Helper()
	_, err := x.Write(r.Encode())
	require.NoError(t, err)
}

// waitEnd waits until the helper has closed the lifeline.
func (x *taken) waitEnd(t *testing.T) {
	t.Helper()
	require.NoError(t, x.SetReadDeadline(time.Now().Add(testPatience)))
	_, err := x.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// pair returns two ends of a connected pair.
func pair(t *testing.T, kind proto.Transport) (ours, theirs *os.File) {
	t.Helper()
	a, b, err := proto.Pair(kind)
	require.NoError(t, err)
	ours, theirs = os.NewFile(uintptr(a), "ours"), os.NewFile(uintptr(b), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}
