// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// call is a subcommand within this process.
func call(name string, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = runCommand(name, args, compat.IO{Stdout: &out, Stderr: &err, LookupEnv: func(string) (string, bool) { return "", false }})
	return code, out.String(), err.String()
}

// TestUsageErrors: a bad command line is told of, in a line that says where to read on, before anything is done.
func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"status", "--hosts --json", "--hosts goes with neither --json nor --watch"},
		{"status", "--web --json /s", "--web goes with no other option"},
		{"kick", "", "no CLIENT"},
		{"kick", "1 --json", "unknown option --json"},
		{"log-level", "debug s", `"s" is not a SOCKET: that is given by its path, such as ./s`},
		{"install", "--prefix=", "--prefix= names no directory"},
		{"migrate", "--root=", "--root needs a directory"},
		{"doctor", "--reach=web", "invalid --reach=web: use an IP address"},
		{"doctor", "--reach=fe80::1%en0", "use an IP address"},
		{"try", "--vmnet-mode=x", "invalid --vmnet-mode=x: use host, shared or bridged"},
		{"try", "--socket-user=", "--socket-user is empty"},
		{"exec", "/s", "no COMMAND"},
		{"exec", "/s --dgram -- true", "--dgram is behind SOCKET"},
		{"exec", "--dgram --stream /s true", "exclude each other"},
		{"exec", "--fd=1 /s true", "--fd=1"},
		{"exec", "--mac=01:00:5e:00:00:01 /s true", "--mac: "},
		{"exec", "--interface-id=x /s true", "--interface-id: "},
		{"exec", "--name=\x01 /s true", "--name: "},
		{"exec", "--json= /s true", "--json="},
	} {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			code, stdout, stderr := call(c.name, strings.Fields(c.args)...)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			assert.True(t, strings.HasSuffix(stderr, " (see socket_vmnet2 "+c.name+" --help)\n"), stderr)
			assert.True(t, strings.HasPrefix(stderr, "ERROR| "), stderr)
			assert.Contains(t, strings.ToLower(stderr), strings.ToLower(c.want))
			assert.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
	code, _, stderr := call("status", "")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "SOCKET is empty")
}

// TestAsked is all four commands with a daemon and two clients.
func TestAsked(t *testing.T) {
	p := start(t)
	tk := p.talkers(t)
	tk.check("hello")
	p.serving(t, 2)

	code, stdout, stderr := call("status", p.sock)
	assert.Zero(t, code, stderr)
	assert.Empty(t, stderr)
	assert.Contains(t, stdout, "socket_vmnet2 "+compat.Version+" at "+p.sock+"\n")
	assert.Regexp(t, `\nclients   2 of 256; since start: [1-9][0-9]* connects`, stdout)
	assert.Contains(t, stdout, "  02:00:00:00:00:a1  ")
	_, table, _ := call("clients", p.sock)
	assert.Len(t, strings.Split(table, "\n"), 4)
	for line := range strings.Lines(table) {
		assert.Len(t, strings.Fields(line), 13, "%q", line)
	}

	code, stdout, _ = call("status", "--json", p.sock)
	assert.Zero(t, code)
	var s status.Status
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	assert.Equal(t, 1, strings.Count(stdout, "\n"))
	assert.Equal(t, p.Process.Pid, s.Daemon.PID)
	require.Len(t, s.Clients, 2)
	code, stdout, _ = call("clients", "--json", p.sock+".d") // the directory will do
	assert.Zero(t, code)
	var l control.Clients
	require.NoError(t, json.Unmarshal([]byte(stdout), &l))
	assert.Len(t, l.Clients, 2)

	code, stdout, stderr = call("status", "--hosts", p.sock)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "# guests of socket_vmnet2 at "+p.sock+"\n", stdout)

	_, stdout, _ = call("log-level", p.sock)
	assert.Equal(t, "info\n", stdout)
	_, stdout, _ = call("log-level", "debug", p.sock)
	assert.Equal(t, "debug\n", stdout)
	_, _, stderr = call("log-level", "loud", p.sock)
	assert.Contains(t, stderr, `invalid level "loud": use debug, info, warn or error`)

	code, stdout, stderr = call("kick", "02:00:00:00:00:a1", "none", p.sock)
	assert.Equal(t, 1, code)
	assert.Empty(t, stdout, "no client is disconnected by half a command")
	assert.Contains(t, stderr, "no client none is connected")
	code, stdout, stderr = call("kick", p.sock, "02:00:00:00:00:A1", fmt.Sprint(s.Clients[0].ID))
	assert.Zero(t, code, stderr)
	assert.Equal(t, fmt.Sprintf("disconnected: client %d, 02:00:00:00:00:a1\n", s.Clients[0].ID), stdout)
	tk.a.ended()
}

// A fakeDaemon answers with what a test wants.
type fakeDaemon struct {
	*testing.T
	socket string
}

// newFakeDaemon serves handlers at the control socket of its socket, at which it listens as well.
func newFakeDaemon(t *testing.T, handlers map[string]http.HandlerFunc) fakeDaemon {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	require.NoError(t, os.Mkdir(socket+".d", 0o700))
	ln, err := net.Listen("unix", socket+".d/control")
	require.NoError(t, err)
	mux := http.NewServeMux()
	for pattern, h := range handlers {
		mux.Handle(pattern, h)
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: patience}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(ln) })
	t.Cleanup(func() {
		_ = s.Close()
		wg.Wait()
	})
	return fakeDaemon{t, socket}
}

// says answers 200 with v, or with a text as it is.
func says(v any) http.HandlerFunc {
	if text, ok := v.(string); ok {
		v = []byte(text)
	}
	return control.Handler(func(http.ResponseWriter, *http.Request) any { return v }).ServeHTTP
}

// refuses answers with an error.
func refuses(code int, what, text string) http.HandlerFunc {
	return says(&control.Error{Status: code, Code: what, Text: text})
}

func TestAskRefused(t *testing.T) {
	hangs := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	one := status.Status{Clients: []status.Client{{ID: 1, Name: "a"}, {ID: 2, Hostname: "a"}, {ID: 3, Name: "b\x1b[2J"}}}
	old := map[string]http.HandlerFunc{"/": refuses(http.StatusNotFound, "not_found", "there is no such path")}
	for _, c := range []struct {
		name     string
		handlers map[string]http.HandlerFunc
		args     []string
		want     string
	}{
		{"too old", old, []string{"status"}, "the daemon is older than this program and has no /v1/status: have it become this program with socket_vmnet2 upgrade "},
		{"no answer", map[string]http.HandlerFunc{"/": hangs}, []string{"status"}, "no answer within 300ms: see the daemon's log"},
		{"no JSON", map[string]http.HandlerFunc{"/": says("x")}, []string{"status"}, "the answer is not JSON"},
		{"another level", map[string]http.HandlerFunc{"/": says("{}")}, []string{"log-level"}, "the daemon answers something else: {}"},
		{"busy", map[string]http.HandlerFunc{"/": refuses(503, "busy", "come\x1b[2J again")}, []string{"clients"}, "come?[2J again"},
		{
			"not allowed",
			map[string]http.HandlerFunc{"PUT /v1/log-level": refuses(403, "forbidden", "only root may")},
			[]string{"log-level", "debug"},
			"only root may",
		},
		{
			"kick one of two",
			map[string]http.HandlerFunc{"GET /v1/status": says(one)},
			[]string{"kick", "a"},
			"a could be one of 2 clients, name it by its number: client 1, a; client 2, a",
		},
		{"kick none", map[string]http.HandlerFunc{"GET /v1/status": says(one)}, []string{"kick", "4"}, "no client 4 is connected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "no answer" { // the others come, however late
				was := askTime
				askTime = 300 * time.Millisecond
				defer func() { askTime = was }()
			}
			d := newFakeDaemon(t, c.handlers)
			code, stdout, stderr := call(c.args[0], append(c.args[1:], d.socket)...)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			assert.Contains(t, stderr, "ERROR| "+d.socket)
			assert.Contains(t, stderr, c.want)
			assert.NotContains(t, stderr, "\x1b")
		})
	}
}

// TestStatusUnwell: the exit code tells of a serious problem, for text and JSON, and for status alone.
func TestStatusUnwell(t *testing.T) {
	s := status.Status{Health: []status.Problem{{Code: "c", Severity: status.Warning}, {Code: "d", Severity: status.Error, Text: "it fails"}}}
	d := newFakeDaemon(t, map[string]http.HandlerFunc{"/": says(s)})
	code, stdout, stderr := call("status", d.socket)
	assert.Equal(t, 2, code)
	assert.Contains(t, stdout, "error d: it fails")
	assert.Empty(t, stderr)
	code, _, _ = call("status", "--json", d.socket)
	assert.Equal(t, 2, code)
	code, _, _ = call("clients", d.socket)
	assert.Zero(t, code)
	code, _, stderr = call("status", d.socket, "/nowhere/s")
	assert.Equal(t, 2, code, "the worst counts")
	assert.Contains(t, stderr, "/nowhere/s: no daemon runs there")
}

// someDaemons is what theDaemon looks at in a test.
func someDaemons(sockets []string, processes ...find.Process) func() find.System {
	return func() find.System {
		s := find.Machine()
		s.Places = append(sockets, "/run/nothing.*")
		s.Processes = func(context.Context) ([]find.Process, error) { return processes, nil }
		return s
	}
}

// TestDiscovery: without SOCKET all daemons are shown, and one of several is not guessed.
func TestDiscovery(t *testing.T) {
	real := machine
	defer func() { machine = real }()
	finds := func(sockets ...string) { machine = someDaemons(sockets) }

	finds()
	for _, args := range [][]string{{"status"}, {"clients"}, {"clients", "--names"}, {"status", "--sockets"}, {"kick", "1"}, {"log-level"}, {"upgrade"}, {"capture"}} {
		code, stdout, stderr := call(args[0], args[1:]...)
		assert.Equal(t, 1, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "no daemon was found: neither a process named socket_vmnet2, nor a socket at /run/nothing.*. Name the SOCKET")
	}
	handlers := map[string]http.HandlerFunc{
		"GET /v1/status":    says(status.Status{Daemon: status.Daemon{Socket: "here"}}),
		"GET /v1/log-level": says(control.Level{Level: "info"}),
		"GET /v1/clients": says(control.Clients{Clients: []status.Client{
			{ID: 2, Hostname: "vm1"}, {ID: 3, Name: "vm"}, {ID: 4, Name: "vm"}, {ID: 5, Name: "17"}, {ID: 6, Name: "$(x) y"},
		}}),
	}
	a, b := newFakeDaemon(t, handlers), newFakeDaemon(t, handlers)
	listen := func(socket string) {
		ln, err := net.Listen("unix", socket)
		require.NoError(t, err)
		t.Cleanup(func() { _ = ln.Close() })
	}
	listen(a.socket)
	listen(b.socket)
	finds(a.socket)
	code, stdout, stderr := call("log-level")
	assert.Zero(t, code, stderr)
	assert.Equal(t, "info\n", stdout)
	finds(a.socket, b.socket)
	code, stdout, _ = call("status", "--json")
	assert.Zero(t, code)
	assert.Equal(t, 2, strings.Count(stdout, "\n"))
	code, stdout, _ = call("status")
	assert.Zero(t, code)
	assert.Equal(t, 2, strings.Count(stdout, " at here\n"))
	_, stdout, _ = call("clients")
	first, second, _ := strings.Cut(stdout, "\n\n")
	assert.True(t, strings.HasPrefix(first, min(a.socket, b.socket)+":\n"), "each table has a title: %s", stdout)
	assert.True(t, strings.HasPrefix(second, max(a.socket, b.socket)+":\n"), stdout)
	_, stdout, _ = call("status", "--sockets")
	assert.Equal(t, min(a.socket, b.socket)+"\n"+max(a.socket, b.socket)+"\n", stdout)
	_, stdout, _ = call("clients", "--names")
	assert.Equal(t, "vm1\n3\n4\n5\n6\nvm1\n3\n4\n5\n6\n", stdout, "3 and 4 are one name, 5 could be a number, 6 is no word")
	for _, args := range [][]string{{"kick", "1"}, {"log-level"}, {"upgrade"}, {"capture"}} {
		code, _, stderr = call(args[0], args[1:]...)
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, "several daemons run, name the SOCKET of one: ")
		assert.Contains(t, stderr, a.socket)
		assert.Contains(t, stderr, b.socket)
	}
	old := filepath.Join(t.TempDir(), "s")
	listen(old)
	machine = someDaemons([]string{a.socket}, find.Process{PID: 5, Args: []string{"/opt/socket_vmnet/bin/socket_vmnet", old}})
	code, stdout, stderr = call("status")
	assert.Zero(t, code, "one that was only found is no error")
	assert.Contains(t, stdout, " at here\n")
	assert.Contains(t, stderr, "WARN | "+old+": socket_vmnet serves it (process 5, /opt/socket_vmnet/bin/socket_vmnet)")
	code, _, stderr = call("status", old)
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "ERROR| "+old+": socket_vmnet serves it (process 5")
}

// TestSplitSocket: SOCKET is behind what a command is about, or in front of it.
func TestSplitSocket(t *testing.T) {
	d := newFakeDaemon(t, nil)
	t.Chdir(filepath.Dir(d.socket))
	require.NoError(t, os.Mkdir("vm1", 0o700)) // no directory of a daemon
	for _, c := range []struct{ args, rest, socket string }{
		{"", "", ""},
		{"3", "3", ""},
		{"/s", "", "/s"},
		{"3 ./s", "3", "./s"},
		{"/s 3", "3", "/s"},
		{"3 s.d", "3", "s.d"},
		{"vm1", "vm1", ""},
		{"3 vm1", "3 vm1", ""},
		{"s.d/control", "", "s.d/control"},
		{"debug /s /t", "debug /s", "/t"},
		{"net 192.168.105.0/24", "net 192.168.105.0/24", ""},
		{"net fd00::/8", "net fd00::/8", ""},
		{"/s net 10/8", "net 10/8", "/s"},
	} {
		rest, socket := splitSocket(strings.Fields(c.args))
		assert.Equal(t, c.rest, strings.Join(rest, " "), c.args)
		assert.Equal(t, c.socket, strings.Join(socket, " "), c.args)
	}
}

// TestKickTells: which process a client is decides what is said of it.
func TestKickTells(t *testing.T) {
	real := machine
	defer func() { machine = real }()
	machine = someDaemons(nil, find.Process{PID: 5, Args: []string{"qemu", "-netdev", "stream,reconnect=1"}}, find.Process{PID: 6, Args: []string{"qemu"}})
	qemu := func(id uint64, pid int) status.Client {
		return status.Client{ID: id, Hostname: fmt.Sprint("vm", id), Peer: status.Peer{PID: pid, Command: "qemu-system-x86"}}
	}
	d := newFakeDaemon(t, map[string]http.HandlerFunc{
		"GET /v1/status": says(status.Status{Clients: []status.Client{qemu(1, 5), qemu(2, 6), qemu(3, 0)}}), "DELETE /v1/clients/{id}": says("{}"),
	})
	code, stdout, stderr := call("kick", "vm1", "2", "vm3", d.socket)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "disconnected: client 1, vm1; it connects again by itself\n"+
		"disconnected: client 2, vm2; its VM has no network until it is started again\ndisconnected: client 3, vm3\n", stdout)
}

// TestComesBack: what kick says of a client, by its program and that one's command line.
func TestComesBack(t *testing.T) {
	const again, gone = "it connects again by itself", "its VM has no network until it is started again"
	for _, c := range []struct{ program, args, want string }{
		{"qemu-system-x86", "qemu -netdev stream,id=n0,addr.path=/s,reconnect=1", again},
		{"qemu-system-x86", `qemu -netdev {"type":"stream","reconnect-ms":500}`, again},
		{"qemu-system-x86", "qemu -netdev stream,id=n0,addr.path=/s", gone},
		{"qemu-system-x86", "qemu -netdev socket,id=n0,fd=3 -chardev socket,id=c,reconnect=1", gone},
		{"qemu-system-x86", "", ""},
		{"vfkit", "", gone},
		{"krunkit", "krunkit", gone},
		{"limactl", "limactl hostagent", gone},
		{"python3", "python3 vm.py", ""},
		{"", "", ""},
	} {
		got := comesBack(status.Client{Peer: status.Peer{Command: c.program}}, strings.Fields(c.args))
		assert.Equal(t, c.want, got, "%s: %s", c.program, c.args)
	}
}

func TestExplainDaemon(t *testing.T) {
	for _, c := range []struct {
		d    find.Daemon
		want string
	}{
		{find.Daemon{Socket: "/s", Err: find.ErrNothing}, "/s: no daemon runs there"},
		{find.Daemon{Socket: "/s", Err: find.ErrNothing, PID: 3, Program: "p"}, "/s: its daemon (process 3, p) runs, but the socket is not there"},
		{find.Daemon{Socket: "/s", Err: find.ErrStopped}, "/s: nothing listens there"},
		{find.Daemon{Socket: "/s", Err: find.ErrOld}, "/s: socket_vmnet serves it, which"},
		{find.Daemon{Socket: "/s", Err: find.ErrNoControl, PID: 3, Program: "p\x1b"}, "/s: the daemon (process 3, p?) has no control socket: it was started with --runtime-dir=none"},
		{find.Daemon{Socket: "/s", Err: &fs.PathError{Op: "dial", Path: "/s", Err: fs.ErrPermission}}, "/s: this user may not ask the daemon: use sudo"},
		{find.Daemon{Control: "/d/control", Err: errors.New("odd")}, "/d: odd"},
	} {
		assert.ErrorContains(t, explainDaemon(c.d), c.want)
	}
	require.NoError(t, explainDaemon(find.Daemon{}))
}
