// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fake is a machine on which these sockets, files and processes are.
type fake struct {
	sockets   []string         // at the usual places
	listens   map[string]error // what connecting to them comes to; what is not here is not there
	files     []string
	links     map[string]string
	starts    string // a control socket that appears once its service manager has started the daemon
	processes []Process
	failed    error
}

func (f fake) system(t *testing.T) System {
	t.Helper()
	files := tree{}
	for path, to := range f.links {
		files[path] = "-> " + to
	}
	for path := range f.listens {
		files[path] = "socket"
	}
	for _, path := range f.files {
		files[path] = map[bool]string{true: "dir"}[strings.HasSuffix(path, "/")]
	}
	root := files.build(t)
	tried := false
	return System{
		Root: root, Places: f.sockets,
		Processes: func(context.Context) ([]Process, error) { return f.processes, f.failed },
		Dial: func(_ context.Context, _, path string) (net.Conn, error) {
			path = strings.TrimPrefix(path, root)
			err, ok := f.listens[path]
			if path == f.starts && tried {
				ok = true
			}
			tried = tried || path == f.starts
			switch {
			case !ok:
				return nil, syscall.ENOENT
			case err != nil:
				return nil, err
			}
			a, b := net.Pipe()
			_ = b.Close()
			return a, nil
		},
	}
}

func process(pid int, args ...string) Process {
	return Process{PID: pid, PPID: 1, Args: args, Dir: "/wd"}
}

func TestDaemons(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    fake
		want []Daemon
	}{
		{"nothing", fake{}, nil},
		{"stale socket", fake{sockets: []string{"/run/a"}, listens: map[string]error{"/run/a": syscall.ECONNREFUSED}}, nil},
		{"a service manager's socket is left alone", fake{sockets: []string{"/run/a"}, listens: map[string]error{"/run/a": nil}}, nil},
		{
			"two, one by a link",
			fake{
				sockets: []string{"/run/b", "/run/a", "/var/run/a"}, links: map[string]string{"/var/run": "../run"},
				listens: map[string]error{"/run/a": nil, "/run/b": nil, "/run/a.d/control": nil, "/run/b.d/control": nil},
			},
			[]Daemon{{Socket: "/run/a", Control: "/run/a.d/control"}, {Socket: "/run/b", Control: "/run/b.d/control"}},
		},
		{
			"crowded by others, as macOS tells it",
			fake{
				sockets: []string{"/run/*"},
				listens: map[string]error{"/run/a": nil, "/run/a.d/control": syscall.ECONNREFUSED, "/run/a.d/control.root": nil},
			},
			[]Daemon{{Socket: "/run/a", Control: "/run/a.d/control"}},
		},
		{
			"for its group, and busy",
			fake{
				sockets: []string{"/run/a"},
				listens: map[string]error{"/run/a": nil, "/run/a.d/control": syscall.EAGAIN, "/run/a.d/control.root": fs.ErrPermission},
			},
			[]Daemon{{Socket: "/run/a", Control: "/run/a.d/control"}},
		},
		{
			"another user's",
			fake{
				sockets: []string{"/run/a"},
				listens: map[string]error{"/run/a": fs.ErrPermission, "/run/a.d/control": fs.ErrPermission},
			},
			[]Daemon{{Socket: "/run/a", Control: "/run/a.d/control", Err: fs.ErrPermission}},
		},
		{
			"by its process alone",
			fake{
				processes: []Process{process(7, "/opt/socket_vmnet2", "--vmnet-mode=host", "s"), process(8, "socket_vmnet2", "status", "x"), process(9, "sh")},
				listens:   map[string]error{"/wd/s": nil, "/wd/s.d/control": nil},
			},
			[]Daemon{{Socket: "/wd/s", Control: "/wd/s.d/control", PID: 7, Program: "/opt/socket_vmnet2"}},
		},
		{
			"with another runtime directory",
			fake{
				sockets:   []string{"/run/a"},
				processes: []Process{process(7, "socket_vmnet2", "--runtime-dir=rd", "/run/a")},
				listens:   map[string]error{"/run/a": nil, "/wd/rd/control": nil},
			},
			[]Daemon{{Socket: "/run/a", Control: "/wd/rd/control", PID: 7, Program: "socket_vmnet2"}},
		},
		{
			"without one",
			fake{
				processes: []Process{process(7, "socket_vmnet2", "--runtime-dir=none", "/run/a")},
				listens:   map[string]error{"/run/a": nil},
			},
			[]Daemon{{Socket: "/run/a", PID: 7, Program: "socket_vmnet2", Err: ErrNoControl}},
		},
		{
			"socket_vmnet",
			fake{
				processes: []Process{process(7, "/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/run/a")},
				listens:   map[string]error{"/run/a": nil},
			},
			[]Daemon{{Socket: "/run/a", PID: 7, Program: "/opt/socket_vmnet/bin/socket_vmnet", Err: ErrOld}},
		},
		{
			"under that name, ours",
			fake{
				processes: []Process{process(7, "socket_vmnet", "/run/a")},
				listens:   map[string]error{"/run/a": nil}, files: []string{"/run/a.lock"},
			},
			[]Daemon{{Socket: "/run/a", PID: 7, Program: "socket_vmnet", Err: ErrNoControl}},
		},
		{
			"by PATH",
			fake{processes: []Process{{PID: 7, Exe: "/opt/bin/socket_vmnet", Args: []string{"socket_vmnet", "/run/a"}}}},
			[]Daemon{{Socket: "/run/a", PID: 7, Program: "/opt/bin/socket_vmnet", Err: ErrNothing}},
		},
		{
			"its socket was removed",
			fake{processes: []Process{process(7, "socket_vmnet2", "/run/a")}},
			[]Daemon{{Socket: "/run/a", PID: 7, Program: "socket_vmnet2", Err: ErrNothing}},
		},
		{
			"paths that are not known",
			fake{processes: []Process{{PID: 7, Args: []string{"socket_vmnet2", "a"}}, process(8, "socket_vmnet2", "--bad", "/x")}},
			nil,
		},
		{
			"no list of processes",
			fake{
				failed: errors.New("no ps"), sockets: []string{"/run/a"},
				listens: map[string]error{"/run/a": nil, "/run/a.d/control": nil},
			},
			[]Daemon{{Socket: "/run/a", Control: "/run/a.d/control"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Daemons(tt.f.system(t))
			for i := range got {
				got[i].By, got[i].Ours = nil, false
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestOne(t *testing.T) {
	for _, tt := range []struct {
		name   string
		f      fake
		socket string
		want   Daemon
	}{
		{"a file", fake{listens: map[string]error{"/a": syscall.ENOTSOCK}}, "/a", Daemon{Socket: "/a", Err: ErrStopped}},
		{"another error", fake{listens: map[string]error{"/a": syscall.EINVAL}}, "/a", Daemon{Socket: "/a", Err: syscall.EINVAL}},
		{"started by its service manager", fake{listens: map[string]error{"/a": nil}, starts: "/a.d/control"}, "/a", Daemon{Socket: "/a", Control: "/a.d/control"}},
		{"an empty one", fake{files: []string{"/d/"}}, "/d", Daemon{Control: "/d/control", Err: ErrNothing}},
		{"one that was left", fake{listens: map[string]error{"/d/control": syscall.ECONNREFUSED}}, "/d", Daemon{Control: "/d/control", Err: ErrStopped}},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, One(tt.f.system(t), tt.socket)) })
	}
}

// TestMachine looks at real sockets, but at no process: Daemons would connect to those of other tests.
func TestMachine(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "find")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := Machine()
	m.Places, m.Processes = []string{dir + "/*"}, nil
	socket := filepath.Join(dir, "s")
	listen := func(path string) *net.UnixListener {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		require.NoError(t, err)
		ln.SetUnlinkOnClose(false)
		t.Cleanup(func() { _ = ln.Close() })
		return ln
	}
	assert.Equal(t, Daemon{Socket: socket, Err: ErrNothing}, One(m, socket))
	ln := listen(socket)
	assert.Equal(t, Daemon{Socket: socket, Err: ErrOld}, One(m, socket))
	require.NoError(t, os.Mkdir(socket+".d", 0o750))
	control := listen(socket + ".d/control")
	want := Daemon{Socket: socket, Control: socket + ".d/control"}
	assert.Equal(t, want, One(m, socket))
	assert.Equal(t, Daemon{Control: socket + ".d/control"}, One(m, socket+".d"))
	require.NoError(t, os.WriteFile(socket+".lock", nil, 0o600))
	assert.Equal(t, []Daemon{want}, Daemons(m))

	require.NoError(t, control.Close())
	assert.Equal(t, Daemon{Socket: socket, Err: ErrNoControl}, One(m, socket))
	require.NoError(t, ln.Close())
	assert.Equal(t, Daemon{Socket: socket, Err: ErrStopped}, One(m, socket))
	assert.Empty(t, Daemons(m))
	require.Error(t, m.connect(strings.Repeat("x", 200)))
}

func TestPlaces(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/5"}[name]
	}
	assert.Equal(t, []string{
		"/var/run/socket_vmnet*", "/private/var/run/lima/socket_vmnet.*", "/opt/homebrew/var/run/socket_vmnet*", "/usr/local/var/run/socket_vmnet*",
		"/home/u/.socket_vmnet2/*", "/home/u/.colima/*/daemon/vmnet.sock", "/tmp/socket_vmnet2-try-*/sock",
	}, places("darwin", 501, env))
	linux := places("linux", 0, func(string) string { return "" })
	assert.Equal(t, []string{
		"/var/run/socket_vmnet*", "/run/socket_vmnet2/*", "/home/linuxbrew/.linuxbrew/var/run/socket_vmnet*", "/tmp/socket_vmnet2-try-*/sock",
	}, linux)
	assert.ElementsMatch(t, append(linux, "/run/user/5/socket_vmnet2/*", "/home/u/.socket_vmnet2/*"), places("linux", 5, env))
}

func TestSamePath(t *testing.T) {
	assert.True(t, SamePath("/var/run/x", "/private/var/run/x"))
	assert.True(t, SamePath("/etc/x", "/private/etc/x"))
	assert.False(t, SamePath("/var/run/x", "/var/run/y"))
	assert.False(t, SamePath("", ""))
	assert.Equal(t, "/private/other/x", public("/private/other/x"))
}

// TestProcesses finds this test among the machine's processes, by whichever way this system has, and by ps, which macOS has always.
func TestProcesses(t *testing.T) {
	for name, list := range map[string]func(context.Context) ([]Process, error){"system": processes, "ps": ps(RunProgram)} {
		t.Run(name, func(t *testing.T) {
			all, err := list(t.Context())
			if _, missing := exec.LookPath("ps"); missing != nil && name == "ps" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			i := slices.IndexFunc(all, func(p Process) bool { return p.PID == os.Getpid() })
			require.GreaterOrEqual(t, i, 0)
			got := all[i]
			got.Dir = "" // only Linux tells
			self, err := os.Executable()
			require.NoError(t, err)
			if name == "ps" || runtime.GOOS != "linux" { // only the system tells, and machrun does not
				self = got.Exe
			}
			assert.Equal(t, self, got.Exe)
			got.Exe = ""
			// ps cannot tell where an argument with a space ends.
			got.Args = []string{strings.Join(got.Args, " ")}
			assert.Equal(t, Process{PID: os.Getpid(), PPID: os.Getppid(), UID: os.Geteuid(), Args: []string{strings.Join(os.Args, " ")}}, got)
		})
	}
}

func TestIsDaemon(t *testing.T) {
	for _, tt := range []struct {
		exe  string
		argv []string
		want bool
	}{
		{"", []string{"/opt/socket_vmnet/bin/socket_vmnet", "/s"}, true},
		{"", []string{"socket_vmnet2", "--vmnet-mode=host", "/s"}, true},
		{"", []string{"socket_vmnet", "migrate"}, true}, // the old program has no subcommands
		{"", []string{"socket_vmnet2", "migrate"}, false},
		{"", []string{"socket_vmnet2", "--version"}, false},
		{"", []string{"socket_vmnet_client", "/s", "qemu"}, false},
		{"", []string{"vim", "socket_vmnet"}, false},
		{"", nil, false},
		{"/opt/bin/socket_vmnet2", []string{"svm", "/s"}, true}, // a link
		{"/usr/bin/vim", []string{"socket_vmnet", "/s"}, false},
		{"/opt/bin/socket_vmnet_client", []string{"socket_vmnet", "/s", "qemu"}, false},
	} {
		assert.Equal(t, tt.want, isDaemon(Process{Exe: tt.exe, Args: tt.argv}), "%q %q", tt.exe, tt.argv)
	}
}

func TestSetupOf(t *testing.T) {
	const colima = "/opt/colima/bin/socket_vmnet"
	for _, tt := range []struct {
		name string
		argv []string
		want setup
	}{
		{
			"colima, with spaces",
			[]string{colima, "--vmnet-mode", "shared", "--socket-group", "staff", "--vmnet-gateway", "192.168.106.1", "--vmnet-dhcp-end", "192.168.106.254", "--pidfile", "/p", "/s"},
			setup{Program: colima, Socket: "/s", Mode: "shared", Gateway: netip.MustParseAddr("192.168.106.1"), Subnet: netip.MustParsePrefix("192.168.106.0/24"), Pidfile: "/p"},
		},
		{"bridged", []string{"x", "--vmnet-mode=bridged", "--vmnet-interface=en7", "/s"}, setup{Program: "x", Socket: "/s", Mode: "bridged", Interface: "en7"}},
		{"option of the new one", []string{"socket_vmnet2", "--max-clients=3", "/s"}, setup{Program: "socket_vmnet2", Socket: "/s", Mode: "shared"}},
		{"refused by the old one", []string{"socket_vmnet", "--max-clients=3", "/s"}, setup{Program: "socket_vmnet"}},
		{"no socket", []string{"socket_vmnet"}, setup{Program: "socket_vmnet"}},
		{"nothing", nil, setup{}},
	} {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, setupOf(tt.argv)) })
	}
}
