// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

const inUse = "bind: Address already in use"

// own is an Owner that any user may set.
func own() Owner { return Owner{UID: -1, GID: os.Getegid(), Mode: 0o770, MustGroup: true} }

// staleSocket leaves a socket at path that nothing listens on.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
}

// lockSocket claims a path that no other has.
func lockSocket(t *testing.T, path string) *SocketLock {
	t.Helper()
	l, err := LockSocket(t.Context(), path, false, discard())
	require.NoError(t, err)
	return l
}

// socketTaken checks that another has the path, or may have it.
func socketTaken(t *testing.T, path string) {
	t.Helper()
	_, err := LockSocket(t.Context(), path, false, discard())
	require.EqualError(t, err, inUse)
}

func TestSocketLife(t *testing.T) {
	for _, c := range []struct {
		name, path string
		stale      bool
	}{
		{"absent", "s", false},
		{"stale", "s", true},
		{"a file like any other, not Linux's abstract name space", "@s", false},
		{"the longest path", strings.Repeat("x", MaxSocketPath), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(vnettest.ShortDir(t))
			dial := strings.Replace(c.path, "@", "./@", 1)
			if c.stale {
				staleSocket(t, c.path)
			}
			l := lockSocket(t, c.path)
			_, err := net.Dial("unix", dial)
			require.Error(t, err, "nothing to connect to before the daemon is ready")
			ln, err := l.Bind(own())
			require.NoError(t, err)
			fi, err := os.Lstat(c.path)
			require.NoError(t, err)
			assert.Equal(t, os.ModeSocket|0o770, fi.Mode())
			fi, err = os.Lstat(c.path + ".lock")
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o600), fi.Mode())

			conn, err := net.Dial("unix", dial)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			socketTaken(t, c.path)

			require.NoError(t, ln.Close())
			assert.Equal(t, []string{c.path, c.path + ".lock"}, entries(t, "."), "the listener's Close leaves the path alone")
			for range 2 {
				l.RemoveIfOurs()
				l.Unlock()
			}
			assert.Equal(t, []string{c.path + ".lock"}, entries(t, "."))
		})
	}
}

// TestSocketRefused is what may be at the path and is neither touched nor opened, with what socket_vmnet says, and what the new program
// says behind it: what is wrong, and what to do.
func TestSocketRefused(t *testing.T) {
	t.Chdir(vnettest.ShortDir(t))
	require.NoError(t, os.WriteFile("file", []byte("keep"), 0o600))
	ln, err := net.Listen("unix", "live")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	require.NoError(t, os.Symlink("live", "link"))
	require.NoError(t, unix.Mkfifo("fifo", 0o600))
	require.NoError(t, os.Mkdir("dir", 0o700))
	pc, err := net.ListenPacket("unixgram", "dgram")
	require.NoError(t, err)
	defer func() { _ = pc.Close() }()
	before := entries(t, ".")
	const none, below = "bind: No such file or directory", "bind: Not a directory"
	long := strings.Repeat("x", MaxSocketPath+1)
	for _, c := range []struct{ path, want, advice string }{ // sockets last: their lock file is made before they are looked at
		{os.DevNull, inUse, "/dev/null is not a socket: give a path where nothing is yet"}, // as Homebrew's test has it
		{"file", inUse, "file is a regular file: give a path where nothing is yet"},
		{"dir", inUse, "dir is a directory: give a path where nothing is yet"},
		{"link", inUse, "link is a symbolic link: give a path where nothing is yet"},
		{"fifo", inUse, "fifo is not a socket: give a path where nothing is yet"},
		{"", none, "SOCKET is empty"},
		{"none/s", none, "the directory none does not exist: create it"},
		{"~/v.sock", none, `"~" was not expanded by the shell: write "$HOME"/v.sock`},
		{"file/s", below, "file/s"},
		{"/dev/full/s", below, "/dev/full/s"},
		{long, fmt.Sprintf("the socket path is too long: %d", MaxSocketPath+1), fmt.Sprintf("at most %d bytes are possible for %s", MaxSocketPath, long)},
		{"live", inUse, fmt.Sprintf("process %d serves live already: see socket_vmnet2 status live", os.Getpid())}, // without a lock file
		{"dgram", inUse, "another process serves dgram already: see socket_vmnet2 status dgram"},
	} {
		t.Run(c.path, func(t *testing.T) {
			_, err := LockSocket(t.Context(), c.path, false, discard())
			require.EqualError(t, err, c.want)
			assert.Equal(t, []string{c.want + ": " + c.advice}, New.lines(err))
			assert.Len(t, Old.lines(err), 2, "the advice is below socket_vmnet's line")
			if c.path == "live" || c.path == "dgram" {
				before = append(before, c.path+".lock")
			}
			assert.ElementsMatch(t, before, entries(t, "."))
			holds(t, "file", "keep")
		})
	}
	c, err := net.Dial("unix", "live")
	require.NoError(t, err, "the live daemon keeps its path")
	require.NoError(t, c.Close())
}

// TestSocketFullBacklog: a daemon that is too busy to accept is a live one. The probe must not wait for it either.
func TestSocketFullBacklog(t *testing.T) {
	path := filepath.Join(vnettest.ShortDir(t), "s")
	fd, err := hostfs.NewSocket(unix.SOCK_STREAM)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	require.NoError(t, unix.Bind(fd, hostfs.Address(path)))
	require.NoError(t, unix.Listen(fd, 0))
	for range 2 { // the backlog of 0 holds one
		c, err := hostfs.NewSocket(unix.SOCK_STREAM)
		require.NoError(t, err)
		defer func() { _ = unix.Close(c) }()
		require.NoError(t, unix.SetNonblock(c, true))
		if err := unix.Connect(c, hostfs.Address(path)); err != nil {
			break
		}
	}
	_, err = LockSocket(impatient(t), path, false, discard())
	require.EqualError(t, err, inUse)
}

// impatient is the context of a daemon that is stopped already: LockSocket answers with its error if it has to wait.
func impatient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestSocketLockFile(t *testing.T) {
	run := func(name string, f func(t *testing.T, path string)) {
		t.Run(name, func(t *testing.T) { f(t, filepath.Join(vnettest.ShortDir(t), "s")) })
	}
	run("link", func(t *testing.T, path string) {
		target := path + ".target"
		require.NoError(t, os.Symlink(target, path+".lock"))
		_, err := LockSocket(t.Context(), path, false, discard())
		require.EqualError(t, err, "bind: Too many levels of symbolic links")
		assert.NoFileExists(t, target)
	})
	run("fifo", func(t *testing.T, path string) {
		require.NoError(t, unix.Mkfifo(path+".lock", 0o600))
		var out strings.Builder
		_, err := LockSocket(t.Context(), path, false, NewLogger(&out, slog.LevelInfo))
		require.EqualError(t, err, "bind: Invalid argument")
		assert.Contains(t, out.String(), "WARN | the lock file of the socket cannot be used path="+path+".lock ")
	})
	run("a second name", func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path+".x", nil, 0o600))
		require.NoError(t, os.Link(path+".x", path+".lock"))
		_, err := LockSocket(t.Context(), path, false, discard())
		require.EqualError(t, err, "bind: Too many links")
	})
	run("of another user", func(t *testing.T, path string) {
		var out strings.Builder
		l := &SocketLock{at: hostfs.Place{Name: path}, log: NewLogger(&out, slog.LevelInfo)}
		l.warnLock(syscall.EACCES)
		assert.Empty(t, out.String(), "there is none: the directory is in the way")
		require.NoError(t, os.WriteFile(path+".lock", nil, 0o600))
		l.warnLock(syscall.EACCES)
		assert.Contains(t, out.String(), fmt.Sprintf("a daemon of user %d left it; remove it if no daemon serves this socket", os.Getuid()))
	})
	run("taken and the socket there", func(t *testing.T, path string) {
		l := lockSocket(t, path)
		defer l.Unlock()
		staleSocket(t, path)
		_, err := LockSocket(impatient(t), path, false, discard())
		require.EqualError(t, err, inUse)
	})
	run("holder stops", func(t *testing.T, path string) {
		l := lockSocket(t, path)
		start := time.Now()
		time.AfterFunc(300*time.Millisecond, l.Unlock)
		lockSocket(t, path).Unlock()
		assert.GreaterOrEqual(t, time.Since(start), 300*time.Millisecond)
	})
	run("given by a service manager", func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, nil, 0o600), "it is not looked at")
		l, err := LockSocket(t.Context(), path, true, discard())
		require.NoError(t, err)
		_, err = LockSocket(impatient(t), path, true, discard())
		require.ErrorIs(t, err, context.Canceled)
		l.Unlock()
	})
}

// TestSocketLockWait: the holder goes on without a socket, so waiting ends with an error.
func TestSocketLockWait(t *testing.T) {
	t.Parallel() // it mostly sleeps
	path := filepath.Join(vnettest.ShortDir(t), "s")
	l := lockSocket(t, path)
	defer l.Unlock()
	start := time.Now()
	socketTaken(t, path)
	waited := time.Since(start)
	assert.GreaterOrEqual(t, waited, lockWait)
	assert.Less(t, waited, lockWait+patience)
}

// TestSocketStolenBeforeBind: a socket_vmnet, which knows no lock, came in between.
func TestSocketStolenBeforeBind(t *testing.T) {
	path := filepath.Join(vnettest.ShortDir(t), "s")
	l := lockSocket(t, path)
	defer l.Unlock()
	other, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	_, err = l.Bind(own())
	require.EqualError(t, err, inUse)
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// TestSocketNotOurs: a socket that took the place of ours stays.
func TestSocketNotOurs(t *testing.T) {
	path := filepath.Join(vnettest.ShortDir(t), "s")
	l := lockSocket(t, path)
	defer l.Unlock()
	ln, err := l.Bind(own())
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	require.NoError(t, os.Remove(path))
	other, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	l.RemoveIfOurs()
	assert.FileExists(t, path)
}

// TestSocketIsPrivateAtFirst: until the socket is given to its owner, only the daemon's user may connect, whatever the umask is.
func TestSocketIsPrivateAtFirst(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(vnettest.ShortDir(t), "s")
	fd, err := hostfs.NewSocket(unix.SOCK_STREAM)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	require.NoError(t, hostfs.BindPrivate(fd, path))
	fi, err := os.Lstat(path)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket|0o600, fi.Mode())
}

func TestSocketOwner(t *testing.T) {
	vnettest.NeedRoot(t)
	dir := vnettest.ShortDir(t)
	for _, c := range []struct {
		name     string
		owner    Owner
		uid, gid int
		mode     os.FileMode
	}{
		{"group", Owner{UID: -1, GID: 3, Mode: 0o770, MustGroup: true}, 0, 3, 0o770},
		{"user and group", Owner{UID: 2, GID: 3, Mode: 0o700, MustGroup: true}, 2, 3, 0o700},
		{"no access", Owner{UID: -1, GID: 0, Mode: 0, MustGroup: true}, 0, 0, 0},
		{"own group", Owner{UID: -1, GID: -1, Mode: 0o777}, 0, 0, 0o777},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, "s")
			l := lockSocket(t, path)
			defer l.Unlock()
			ln, err := l.Bind(c.owner)
			require.NoError(t, err)
			defer func() { _ = ln.Close() }()
			defer l.RemoveIfOurs()
			fi, err := os.Lstat(path)
			require.NoError(t, err)
			st, ok := fi.Sys().(*syscall.Stat_t)
			require.True(t, ok)
			assert.Equal(t, []int{c.uid, c.gid}, []int{int(st.Uid), int(st.Gid)})
			assert.Equal(t, c.mode, fi.Mode().Perm())
		})
	}
}

func TestOwnerLookup(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	myGroup, err := user.LookupGroupId(me.Gid)
	require.NoError(t, err)
	var log bytes.Buffer
	c := defaultConfig()
	c.SocketGroup = "no-such-group"
	o, err := c.Owner()
	require.NoError(t, err, "the default group need not exist")
	assert.Equal(t, -1, o.GID)
	c.SocketGroupSet = true
	_, err = c.Owner()
	Old.LogError(NewLogger(&log, slog.LevelInfo), err)
	assert.Equal(t, "ERROR| unknown group name \"no-such-group\"\nERROR| socket_bindlisten: Invalid argument\n", log.String())
	c.SocketGroup = "0"
	_, err = c.Owner()
	require.ErrorContains(t, err, `unknown group name "0"`, "a number is a name")
	c.SocketGroup, c.SocketUser = myGroup.Name, me.Username
	o, err = c.Owner()
	require.NoError(t, err)
	assert.Equal(t, []string{me.Gid, me.Uid}, []string{strconv.Itoa(o.GID), strconv.Itoa(o.UID)})
	assert.True(t, o.MustGroup)
	c.SocketUser = "no-such-user"
	_, err = c.Owner()
	assert.EqualError(t, err, `unknown user name "no-such-user"`)
}

// TestGatewayOwner: root's gateway becomes nobody unless another user is asked for, and only root's can.
func TestGatewayOwner(t *testing.T) {
	var c Config
	uid, gid, err := c.GatewayOwner()
	require.NoError(t, err)
	root := os.Geteuid() == 0
	assert.Equal(t, root && runtime.GOOS != "darwin", uid > 0 && gid > 0)
	c.GatewayUser = "no-such-user"
	_, _, err = c.GatewayOwner()
	if !root {
		assert.ErrorContains(t, err, "--gateway-user=no-such-user needs root")
		return
	}
	assert.ErrorContains(t, err, `unknown user name "no-such-user"`)
	c.GatewayUser = "root"
	uid, gid, err = c.GatewayOwner()
	require.NoError(t, err)
	assert.Equal(t, [2]int{0, 0}, [2]int{uid, gid})
}

// TestSocketDefaultGroup: a group that cannot be set is one INFO line for the default and an error for a given one. Root
// may set any group, so a child without that right does it.
func TestSocketDefaultGroup(t *testing.T) {
	vnettest.NeedRoot(t)
	dir := vnettest.ShortDir(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	exe := filepath.Join(dir, "exe") // where the other user can reach it
	self, err := os.Executable()
	require.NoError(t, err)
	b, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(exe, b, 0o755))
	for _, c := range []struct{ name, must, want string }{
		{"default", "", "INFO | the socket has the daemon's own group, the default one cannot be set group=root gid=65534\n"},
		{"given", "must", "ERROR| chown: Operation not permitted\nERROR| socket_bindlisten: Operation not permitted\nERROR| " + dir +
			"/s cannot be given to group \"root\": use sudo, or a group of this user\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(exe, filepath.Join(dir, "s"), c.must)
			cmd.Env = append(os.Environ(), childVar+"=1", "GORACE=atexit_sleep_ms=0")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Equal(t, c.want, string(out))
			assert.NoFileExists(t, filepath.Join(dir, "s"))
		})
	}
}

// groupChild makes a socket for group root.
func groupChild(args []string) int {
	log := NewLogger(os.Stderr, slog.LevelInfo)
	l, err := LockSocket(context.Background(), args[0], false, log)
	if err == nil {
		_, err = l.Bind(Owner{UID: -1, GID: 0, Mode: 0o770, GroupName: "root", MustGroup: args[1] != ""})
	}
	if err != nil {
		Old.LogError(log, err)
	}
	if l != nil {
		l.RemoveIfOurs()
		l.Unlock()
	}
	return 0
}

// TestSaveLeavesAll: what was saved works on if the exec fails.
func TestSaveLeavesAll(t *testing.T) {
	dir := t.TempDir()
	p, err := AcquirePidfile(dir+"/p", discard())
	require.NoError(t, err)
	require.NoError(t, p.Publish(os.Getpid()))
	l, err := LockSocket(t.Context(), dir+"/s", false, discard())
	require.NoError(t, err)
	ln, err := l.Bind(Owner{UID: -1, GID: -1, Mode: 0o770})
	require.NoError(t, err)
	defer ln.Close()
	var o handover.Out
	sl, sp := l.Save(&o), p.Save(&o)
	require.Error(t, handover.Exec(&o, nil, nil, "/nowhere", []string{"x"}, nil))
	require.ErrorIs(t, (&SocketLock{at: hostfs.Place{Name: dir + "/s"}}).tryLock(), syscall.EAGAIN)
	_, err = AcquirePidfile(dir+"/p", discard())
	require.EqualError(t, err, openText(dir+"/p", "Resource temporarily unavailable"))
	b, err := json.Marshal([]any{sl, sp})
	require.NoError(t, err)
	assert.Regexp(t, `^\[\{"path":".*/s","fd":\d+,"bound":true,"dev":\d+,"ino":\d+\},\{"path":".*/p","fd":\d+,"pid":\d+\}\]$`, string(b))
	c, err := net.DialTimeout("unix", dir+"/s", 10*time.Second)
	require.NoError(t, err)
	_ = c.Close()
	l.RemoveIfOurs()
	p.Release()
	l.Unlock()
	assert.Equal(t, []string{"s.lock"}, entries(t, dir))
}
