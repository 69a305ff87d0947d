// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a service manager and what it gives.
type rig struct {
	t    *testing.T
	dir  string
	log  strings.Builder
	opts Options
}

// base is where the descriptors of the tests begin.
const base = 300

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "inherit") // short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "s.d", "dgram"), 0o700))
	r := &rig{t: t, dir: dir}
	r.opts = Options{
		Socket: dir + "/s", Dir: dir + "/s.d", Log: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	before, activate := this, activateSocket
	t.Cleanup(func() { this, activateSocket = before, activate })
	this = process{pid: 77, ppid: 1, descriptor: base}
	activateSocket = func(string) ([]int, error) { return nil, nil }
	return r
}

// give makes descriptor base+i of fd, which it closes, inherited by children as systemd's are.
func (r *rig) give(i, fd int) {
	r.t.Helper()
	got, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, base+i)
	require.NoError(r.t, err)
	require.Equal(r.t, base+i, got)
	require.NoError(r.t, unix.Close(fd))
	r.t.Cleanup(func() { _ = unix.Close(base + i) })
}

// socket makes a socket of the kind at path; listening, if it can.
func (r *rig) socket(kind int, path string) int {
	r.t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	require.NoError(r.t, err)
	require.NoError(r.t, unix.Bind(fd, &unix.SockaddrUnix{Name: path}))
	if kind != unix.SOCK_DGRAM {
		require.NoError(r.t, unix.Listen(fd, 16))
	}
	return fd
}

// set sets variables.
func (r *rig) set(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		r.t.Setenv(pairs[i], pairs[i+1])
	}
}

// noneLeft checks that the variables are for this process alone.
func (r *rig) noneLeft() {
	r.t.Helper()
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"} {
		_, there := os.LookupEnv(name)
		assert.False(r.t, there, name)
	}
}

// announce sets the variables for n descriptors. What they are called does not matter.
func (r *rig) announce(n int) {
	r.set("LISTEN_PID", "77", "LISTEN_FDS", strconv.Itoa(n), "LISTEN_FDNAMES", "anything")
}

func (r *rig) take() Given {
	r.t.Helper()
	s, err := Take(r.opts)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		for _, l := range s.Listeners {
			_ = l.Close()
		}
	})
	return s
}

func TestAllSockets(t *testing.T) {
	r := newRig(t)
	for i, name := range []string{"s", "s.d/attach", "s.d/adopt", "s.d/control"} {
		r.give(i, r.socket(unix.SOCK_STREAM, r.dir+"/"+name))
	}
	r.give(4, r.socket(unix.SOCK_DGRAM, r.dir+"/s.d/dgram/sock"))
	r.announce(5)
	s := r.take()
	r.noneLeft()
	assert.True(t, s.Has(Control, "x"))
	assert.Equal(t, []string{r.dir + "/s", r.dir + "/s.d/attach", r.dir + "/s.d/adopt", r.dir + "/s.d/control", r.dir + "/s.d/dgram/sock"}, s.Paths)
	for i, role := range []string{Stream, Attach, Adopt, Control} {
		l := s.Listeners[role]
		require.NotNil(t, l)
		c, err := net.Dial("unix", s.Paths[i])
		require.NoError(t, err)
		a, err := l.AcceptUnix()
		require.NoError(t, err)
		assertCloseOnExec(t, l)
		require.NoError(t, a.Close())
		require.NoError(t, c.Close())
		require.NoError(t, l.Close())
		assert.FileExists(t, s.Paths[i], "the path is the manager's")
	}
	require.NoError(t, s.Datagram.Close())
	assert.FileExists(t, r.dir+"/s.d/dgram/sock")
	for i := range 5 {
		_, err := unix.FcntlInt(uintptr(base+i), unix.F_GETFD, 0)
		require.ErrorIs(t, err, unix.EBADF, "a descriptor is left over")
	}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var next Given
	require.NoError(t, json.Unmarshal(b, &next))
	assert.Equal(t, Given{Names: s.Names, Paths: s.Paths}, next, "the next image knows what was given")
}

func assertCloseOnExec(t *testing.T, l *net.UnixListener) {
	t.Helper()
	rc, err := l.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, rc.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
		assert.NoError(t, err)
		assert.NotZero(t, flags&unix.FD_CLOEXEC)
	}))
}

// TestNothingGiven: a start without a service manager, or not by one that counts.
func TestNothingGiven(t *testing.T) {
	for name, set := range map[string]func(r *rig){
		"no variables":    func(*rig) {},
		"no count":        func(r *rig) { r.set("LISTEN_PID", "77") },
		"another process": func(r *rig) { r.announce(1); r.set("LISTEN_PID", "78") },
		"none":            func(r *rig) { r.announce(0) },
		"root of a user":  func(r *rig) { r.announce(1); this.ppid = 2 },
		"set-user-id":     func(r *rig) { r.announce(1); this.uid = 501 },
		"set-group-id":    func(r *rig) { r.announce(1); this.gid = 20 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.give(0, r.socket(unix.SOCK_STREAM, r.dir+"/s"))
			set(r)
			assert.Equal(t, Given{Listeners: map[string]*net.UnixListener{}, Stored: map[string][]int{}}, r.take())
			r.noneLeft()
		})
	}
}

func TestWhoseEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name      string
		set       func(p *process)
		get, kept bool
	}{
		{"root's by process 1", func(*process) {}, true, true},
		{"root's by a user", func(p *process) { p.ppid = 2 }, true, false},
		{"a user's", func(p *process) { p.uid, p.euid, p.ppid = 501, 501, 2 }, true, true},
		{"set-user-id", func(p *process) { p.uid = 501 }, false, false},
		{"set-user-id of a user", func(p *process) { p.uid, p.euid = 501, 502 }, false, false},
		{"set-group-id", func(p *process) { p.uid, p.euid, p.egid = 501, 501, 20 }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.set("STATE_DIRECTORY", "/s", "HOME", "/h")
			tt.set(&this)
			assert.Equal(t, tt.get, Getenv("HOME") == "/h")
			DropUnheeded()
			assert.Equal(t, tt.kept, os.Getenv("STATE_DIRECTORY") == "/s")
			assert.Equal(t, "/h", os.Getenv("HOME"))
		})
	}
}

func TestRefused(t *testing.T) {
	stream := func(path string) func(r *rig) {
		return func(r *rig) { r.give(0, r.socket(unix.SOCK_STREAM, r.dir+"/"+path)) }
	}
	tests := []struct {
		name string
		set  func(r *rig)
		want string
	}{
		{"very many", func(r *rig) { r.set("LISTEN_FDS", "13000") }, `LISTEN_FDS="13000"`},
		{"not open", func(*rig) {}, "ask for its address: bad file descriptor"},
		{"a file", func(r *rig) {
			fd, err := unix.Open(r.dir, unix.O_RDONLY, 0)
			require.NoError(r.t, err)
			r.give(0, fd)
		}, "ask for its address: socket operation on non-socket"},
		{"an internet socket", func(r *rig) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			require.NoError(r.t, err)
			r.give(0, fd)
		}, "it is not a unix socket"},
		{"not bound", func(r *rig) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			require.NoError(r.t, err)
			r.give(0, fd)
		}, "it is not bound to an absolute path"},
		{"another path", stream("t"), "/t, which is neither SOCKET ("},
		{"a datagram socket", func(r *rig) { r.give(0, r.socket(unix.SOCK_DGRAM, r.dir+"/s")) }, "is not a stream socket (ListenStream=)"},
		{"a packet socket", func(r *rig) {
			if runtime.GOOS == "darwin" {
				r.t.Skip("darwin: unix sockets are streams or datagrams (xnu, bsd/kern/uipc_proto.c)")
			}
			r.give(0, r.socket(unix.SOCK_SEQPACKET, r.dir+"/s"))
		}, "is not a stream socket"},
		{"a stream socket", stream("s.d/dgram/sock"), "is not a datagram socket (ListenDatagram=)"},
		{"not listening", func(r *rig) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			require.NoError(r.t, err)
			require.NoError(r.t, unix.Bind(fd, &unix.SockaddrUnix{Name: r.dir + "/s"}))
			r.give(0, fd)
		}, "does not listen: a socket with Accept=yes"},
		{"no runtime directory", func(r *rig) {
			stream("s.d/attach")(r)
			r.opts.Dir = ""
		}, "nor a socket beside it (in none, as --runtime-dir says)"},
		{"twice", func(r *rig) {
			fd := r.socket(unix.SOCK_STREAM, r.dir+"/s")
			again, err := unix.Dup(fd)
			require.NoError(r.t, err)
			r.give(0, fd)
			r.give(1, again)
			r.announce(2)
		}, "a second socket for "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.announce(1)
			tt.set(r)
			_, err := Take(r.opts)
			require.ErrorContains(t, err, tt.want)
			r.noneLeft()
		})
	}
}

func TestLinkToTheSameDirectory(t *testing.T) {
	r := newRig(t)
	require.NoError(t, os.Symlink(r.dir, r.dir+"-link"))
	t.Cleanup(func() { _ = os.Remove(r.dir + "-link") })
	r.opts.Socket, r.opts.Dir = r.dir+"-link/s", r.dir+"-link/s.d"
	r.give(0, r.socket(unix.SOCK_STREAM, r.dir+"/s"))
	r.give(1, r.socket(unix.SOCK_STREAM, r.dir+"/s.d/attach"))
	r.announce(2)
	s := r.take()
	assert.True(t, s.Has(Stream))
	assert.True(t, s.Has(Attach))
}

// TestPathIsGone: it costs a warning. A user's daemon needs no process 1 for a parent.
func TestPathIsGone(t *testing.T) {
	r := newRig(t)
	this.uid, this.euid, this.ppid = 501, 501, 4711
	r.give(0, r.socket(unix.SOCK_STREAM, r.dir+"/s"))
	require.NoError(t, os.Remove(r.dir+"/s"))
	r.announce(1)
	assert.Len(t, r.take().Names, 1)
	assert.Contains(t, r.log.String(), "level=WARN")
	assert.Contains(t, r.log.String(), "its path is gone")
}

func TestLaunchd(t *testing.T) {
	r := newRig(t)
	r.give(0, r.socket(unix.SOCK_STREAM, r.dir+"/s"))
	r.give(1, r.socket(unix.SOCK_STREAM, r.dir+"/s.d/adopt"))
	var asked []string
	activateSocket = func(name string) ([]int, error) {
		asked = append(asked, name)
		switch name {
		case "Listeners":
			return []int{base}, nil
		case Adopt:
			return []int{base + 1}, nil
		}
		return nil, fmt.Errorf("activate socket %q: %w", name, unix.ENOENT)
	}
	s := r.take()
	assert.True(t, s.Has(Stream))
	assert.True(t, s.Has(Adopt))
	assert.False(t, s.Has(Attach, Dgram, Control))
	assert.Equal(t, []string{Stream, Attach, Adopt, Dgram, Control, "Listeners"}, asked)

	asked = nil
	this.ppid = 2
	r.take()
	assert.Empty(t, asked, "a daemon of root's that a user started asks for nothing")

	this.ppid = 1
	activateSocket = func(string) ([]int, error) { return nil, unix.EINVAL }
	_, err := Take(r.opts)
	require.ErrorIs(t, err, unix.EINVAL)
	activateSocket = func(string) ([]int, error) { return []int{base + 40}, nil }
	_, err = Take(r.opts)
	require.ErrorContains(t, err, `launchd's socket "stream": ask for its address`)
}

func TestNotifier(t *testing.T) {
	r := newRig(t)
	path := r.dir + "/notify"
	for _, addr := range []string{path, "@inherit-test-" + strconv.Itoa(os.Getpid())} {
		if addr[0] == '@' && runtime.GOOS != "linux" {
			continue
		}
		in, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: addr, Net: "unixgram"})
		require.NoError(t, err)
		require.NoError(t, in.SetReadDeadline(time.Now().Add(10*time.Second)))
		read := func() string {
			b := make([]byte, 1000)
			n, err := in.Read(b)
			require.NoError(t, err)
			return string(b[:n])
		}
		r.set("NOTIFY_SOCKET", addr)
		n := Notifier{Addr: r.take().Manager, Log: r.opts.Log}
		r.noneLeft()
		n.Ready("serving /a\nFDSTORE=1")
		assert.Equal(t, "READY=1\nSTATUS=serving /a FDSTORE=1", read())
		n.Reloading()
		assert.Regexp(t, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\nSTATUS=upgrading$`, read())
		n.Stopping()
		assert.Equal(t, "STOPPING=1\nSTATUS=stopping", read())
		require.NoError(t, in.Close())
	}
	assert.Empty(t, r.log.String())
}

func TestNotifierThatIsNotRead(t *testing.T) {
	r := newRig(t)
	for _, addr := range []string{r.dir + "/none", "relative", "vsock:2:1234", "/" + strings.Repeat("x", 200)} {
		r.log.Reset()
		Notifier{Addr: addr, Log: r.opts.Log}.Ready("x")
		assert.Equal(t, 1, strings.Count(r.log.String(), "\n"), addr)
		assert.Contains(t, r.log.String(), "level=DEBUG")
	}
	r.set("NOTIFY_SOCKET", "/x")
	this.ppid = 2
	assert.Empty(t, r.take().Manager)
	r.noneLeft()
	Notifier{}.Stopping() // without an address it tells nothing
}
