// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
)

// attacker is a user that prepares paths for the daemon, and shares no group with it.
const attacker = 4242

// An arena is a directory where all users may make files, as in /tmp, and what an attacker is after.
type arena struct {
	t      *testing.T
	dir    string // of SOCKET and the pidfile
	safe   string // a directory that only the daemon's user writes in
	victim string // a file of the daemon's user
	user   int    // the daemon's
}

func newArena(t *testing.T, user int) *arena {
	t.Helper()
	top := shortDir(t)
	a := &arena{t: t, dir: top + "/d", safe: top + "/safe", user: user}
	a.victim = a.safe + "/victim"
	for _, dir := range []string{a.dir, a.safe} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	require.NoError(t, os.Chmod(a.dir, 0o777|os.ModeSticky))
	require.NoError(t, os.WriteFile(a.victim, []byte("secret"), 0o600))
	a.own(user, a.safe, a.victim)
	return a
}

// own gives files to a user, links themselves and not what they lead to.
func (a *arena) own(user int, paths ...string) {
	a.t.Helper()
	for _, p := range paths {
		require.NoError(a.t, os.Lchown(p, user, user))
	}
}

// The ways to prepare a path.
func (a *arena) link(path, target string) {
	require.NoError(a.t, os.Symlink(target, path))
	a.own(attacker, path)
}

func (a *arena) hardLink(path string) { require.NoError(a.t, os.Link(a.victim, path)) }

func (a *arena) file(path string) {
	require.NoError(a.t, os.WriteFile(path, nil, 0o666))
	a.own(attacker, path)
}

func (a *arena) directory(path string, user int, mode os.FileMode) {
	require.NoError(a.t, os.Mkdir(path, 0o700))
	require.NoError(a.t, os.Chmod(path, mode))
	a.own(user, path)
}

func (a *arena) fifo(path string) {
	require.NoError(a.t, unix.Mkfifo(path, 0o666))
	require.NoError(a.t, os.Chmod(path, 0o666))
	a.own(attacker, path)
}

// stale is a socket without a listener.
func (a *arena) stale(path string) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(a.t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(a.t, ln.Close())
	require.NoError(a.t, os.Chmod(path, 0o777))
	a.own(attacker, path)
}

// look is all that can be told of the victim and of what lies in the arena.
func (a *arena) look() map[string]string {
	all := map[string]string{}
	require.NoError(a.t, filepath.WalkDir(filepath.Dir(a.dir), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		text := fmt.Sprintf("mode %o uid %d gid %d ino %d", st.Mode, st.Uid, st.Gid, st.Ino)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			b, err := os.ReadFile(path)
			text += fmt.Sprintf(" links %d content %q %v", st.Nlink, b, err)
		}
		all[path] = text
		return nil
	}))
	return all
}

// An attack prepares something. The daemon refuses to start, with want as an error, or runs and may warn with want.
type attack struct {
	name    string
	prepare func(a *arena)
	args    []string // A stands for the arena's directory, S for the safe one
	runs    bool
	want    string
	wantFor map[int]string // in place of want, if the daemon runs as that user
	runsFor map[int]bool
}

const daemonUser = 65534

// attacks is the table. A path belongs to the attacker unless it says otherwise.
func attacks() []attack {
	var list []attack
	add := func(path, want string, runs bool, ways map[string]func(a *arena, p string)) {
		for name, way := range ways {
			list = append(list, attack{
				name: path + ": " + name, runs: runs, want: want,
				prepare: func(a *arena) { way(a, a.dir+"/"+path) },
			})
		}
	}
	type ways = map[string]func(a *arena, p string)
	links := ways{
		"link":          func(a *arena, p string) { a.link(p, a.victim) },
		"dangling link": func(a *arena, p string) { a.link(p, a.safe+"/made") },
	}
	fifo := ways{"fifo": func(a *arena, p string) { a.fifo(p) }}
	hard := ways{"hard link": func(a *arena, p string) { a.hardLink(p) }}
	dir := ways{"directory": func(a *arena, p string) { a.directory(p, attacker, 0o777) }}
	foreign := ways{"another user's directory": func(a *arena, p string) { a.directory(p, attacker, 0o755) }}
	inside := func(w ways) ways { // in a SOCKET.d of the daemon's
		in := ways{}
		for name, way := range w {
			in[name] = func(a *arena, p string) {
				a.directory(a.dir+"/s.d", a.user, 0o750)
				if filepath.Base(filepath.Dir(p)) == "dgram" {
					a.directory(a.dir+"/s.d/dgram", a.user, 0o770|os.ModeSticky)
				}
				way(a, p)
			}
		}
		return in
	}

	for _, w := range []ways{links, hard, fifo, dir} {
		add("s", "ERROR| bind: Address already in use\n", false, w)
	}
	add("s.lock", "ERROR| bind: ", false, links) // in a sticky directory Linux itself may forbid it
	add("s.lock", "ERROR| bind: Too many links\n", false, hard)
	add("s.lock", "ERROR| bind: ", false, fifo) // likewise
	add("s.lock", "ERROR| bind: Is a directory\n", false, dir)

	pid := func(text string) string { return `pid": ` + text + "\n" }
	add("pid", pid("Too many levels of symbolic links"), false, links)
	add("pid", pid("Invalid argument"), false, fifo)
	add("pid", pid("Is a directory"), false, dir)
	add("pid", "", true, hard) // the name is replaced, the file left alone

	add("s.d", "it is no directory, or a link", true, links)
	add("s.d", "it is no directory, or a link", true, hard)
	add("s.d", "it is no directory, or a link", true, ways{"link to a directory": func(a *arena, p string) { a.link(p, a.safe) }})
	add("s.d", "it belongs to user 4242, not to us", true, foreign)
	add("s.d/lock", "WARN | datagram clients and passed descriptors are not served", true, inside(links))
	add("s.d/lock", "it is no file of ours", true, inside(hard))
	add("s.d/lock", "WARN | datagram clients and passed descriptors are not served", true, inside(fifo))
	add("s.d/dgram", "it is no directory, or a link", true, inside(links))
	add("s.d/dgram", "it belongs to user 4242, not to us", true, inside(foreign))
	for _, name := range []string{"attach", "adopt", "dgram/sock"} {
		for _, w := range []ways{links, hard, fifo, dir} {
			add("s.d/"+name, "there is something that is no socket", true, inside(w))
		}
	}
	stale := ways{"another user's socket": func(a *arena, p string) { a.stale(p) }}
	add("s.d/attach", "there is one of user 4242, not ours", true, inside(stale))
	add("s.d/dgram/sock", "", true, inside(stale)) // clients may leave one there
	return append(list, attacksOnState()...)
}

func attacksOnState() []attack {
	file := func(a *arena) string { return a.safe + "/state/" + state.FileName(a.dir+"/s") }
	own := func(way func(a *arena, p string)) func(*arena) {
		return func(a *arena) {
			a.directory(a.safe+"/state", a.user, 0o700)
			way(a, file(a))
		}
	}
	const ignored, none = "WARN | state file ignored", "WARN | state is not kept"
	return []attack{
		{
			name: "state: link to a directory", want: none, runs: true, args: []string{"--state-dir=A/state"},
			prepare: func(a *arena) { a.link(a.dir+"/state", a.safe) },
		},
		{
			name: "state: another user's directory", want: none, runs: true, args: []string{"--state-dir=A/state"},
			prepare: func(a *arena) { a.directory(a.dir+"/state", attacker, 0o755) },
		},
		{
			name: "state: below another user's directory", want: none, runs: true, args: []string{"--state-dir=A/x/state"},
			prepare: func(a *arena) { a.directory(a.dir+"/x", attacker, 0o755) },
		},
		{
			name: "state: a directory for all", want: none, runs: true, args: []string{"--state-dir=S/all"},
			prepare: func(a *arena) { a.directory(a.safe+"/all", a.user, 0o777) },
		},
		{
			name: "state: a file", want: none, runs: true, args: []string{"--state-dir=A/state"},
			prepare: func(a *arena) { a.file(a.dir + "/state") },
		},
		{name: "state file: link", want: ignored, runs: true, prepare: own(func(a *arena, p string) { a.link(p, a.victim) })},
		{name: "state file: another user's", want: ignored, runs: true, prepare: own(func(a *arena, p string) { a.file(p) })},
		{name: "state file: fifo", want: ignored, runs: true, prepare: own(func(a *arena, p string) { a.fifo(p) })},
		{name: "state file: link in the place of the next one", runs: true, prepare: own(func(a *arena, p string) { a.link(p+".tmp", a.victim) })},
		{
			name: "SOCKET: another user's that is stale", runs: true, prepare: func(a *arena) { a.stale(a.dir + "/s") },
			runsFor: map[int]bool{daemonUser: false}, wantFor: map[int]string{daemonUser: "ERROR| bind: Operation not permitted\n"},
		},
		{
			name: "SOCKET: in another user's directory", runs: true, want: "belongs to user 4242, neither to root nor to us",
			prepare: func(a *arena) { a.own(attacker, a.dir) },
		},
	}
}

// TestAttacksOnPaths: whatever another user prepares where the daemon makes its files, nothing is touched that this user may not touch.
func TestAttacksOnPaths(t *testing.T) {
	needRoot(t)
	require.NoError(t, os.Chmod(binaries, 0o755))
	for _, user := range []int{0, daemonUser} {
		for _, x := range attacks() {
			if runs, ok := x.runsFor[user]; ok {
				x.runs, x.want = runs, x.wantFor[user]
			}
			t.Run(fmt.Sprintf("user %d/%s", user, x.name), func(t *testing.T) { testAttack(t, user, x) })
		}
	}
}

func testAttack(t *testing.T, user int, x attack) {
	t.Helper()
	a := newArena(t, user)
	x.prepare(a)
	before := a.look()
	args := []string{"--backend=usernet", "--pidfile=" + a.dir + "/pid"}
	if len(x.args) == 0 {
		x.args = []string{"--state-dir=S/state"}
	}
	for _, arg := range x.args {
		flag, value := arg[:len("--state-dir=")], arg[len("--state-dir="):]
		args = append(args, flag+map[byte]string{'A': a.dir, 'S': a.safe}[value[0]]+value[1:])
	}
	cmd := exec.Command(filepath.Join(binaries, "socket_vmnet2"), append(args, a.dir+"/s")...)
	if user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
	p := runDaemon(t, cmd, a.dir+"/s")
	if x.runs {
		require.Eventually(t, func() bool {
			b, err := os.ReadFile(a.dir + "/pid")
			return err == nil && len(b) > 0 && len(b) < 10 && string(b) != "secret"
		},
			patience, 2*time.Millisecond, "it does not run: %s", p.stderr)
		p.stop(t)
	} else {
		p.exits(t, 1)
	}
	p.says(t, x.want)
	after := a.look()
	assert.NoFileExists(t, a.safe+"/made")
	for path, was := range before {
		switch {
		case path == a.victim, !x.runs: // all is as it was, but for names of ours
			is := after[path]
			if path == a.victim && x.runs { // a name of it that lay in the daemon's way may be gone
				is, was = content(is), content(was)
			}
			assert.Equal(t, was, is, path)
		}
	}
}

// content is what look tells without the number of links.
func content(s string) string {
	var mode, uid, gid, ino, links, rest string
	_, _ = fmt.Sscanf(s, "mode %s uid %s gid %s ino %s links %s content %s", &mode, &uid, &gid, &ino, &links, &rest)
	return fmt.Sprint(mode, uid, gid, ino, rest)
}

// TestRootAndItsEnvironment: a daemon of root's that a user starts, by sudo for example, goes nowhere that the environment says.
func TestRootAndItsEnvironment(t *testing.T) {
	needRoot(t)
	dir := shortDir(t)
	bait := dir + "/bait"
	require.NoError(t, os.Mkdir(bait, 0o700))
	cmd := exec.Command(filepath.Join(binaries, "socket_vmnet2"), "--backend=usernet", gatewayFlag, dir+"/s")
	if canMount() { // what root's state would be is hidden from this machine
		const hide = `mount --make-rprivate / && mount -t tmpfs none /var/lib && exec "$@"`
		cmd = exec.Command("/bin/sh", append([]string{"-c", hide, "sh"}, cmd.Args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	} else {
		t.Cleanup(func() { _ = os.Remove("/var/lib/socket_vmnet2/" + state.FileName(dir+"/s")) })
	}
	for _, name := range []string{
		"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "TMPDIR", "STATE_DIRECTORY",
		"RUNTIME_DIRECTORY", "CONFIGURATION_DIRECTORY", "NOTIFY_SOCKET", "SSL_CERT_FILE", "SSL_CERT_DIR", "HOSTALIASES", "LOCPATH",
	} {
		cmd.Env = append(cmd.Env, name+"="+bait)
	}
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"), "LISTEN_FDS=1", "LISTEN_PID=1", "LD_PRELOAD="+bait+"/x.so", "http_proxy=http://127.0.0.1:1")
	p := runDaemon(t, cmd, dir+"/s")
	p.ready(t)
	_, err := over(t, p.stream()).Configure()
	require.NoError(t, err)
	kept := fmt.Sprintf("/proc/%d/root/var/lib/socket_vmnet2/%s", p.Process.Pid, state.FileName(dir+"/s"))
	require.Eventually(t, func() bool { _, err := os.Stat(kept); return err == nil }, patience, 10*time.Millisecond, "%s", p.stderr)
	p.stop(t)
	left, err := os.ReadDir(bait)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestNoConnectionBeforeTheMode races a user that may not connect against starts of the daemon.
func TestNoConnectionBeforeTheMode(t *testing.T) {
	needRoot(t)
	const starts = 20
	a := newArena(t, 0)
	sock := a.dir + "/s"
	paths := []string{sock, sock + ".d/attach", sock + ".d/adopt", sock + ".d/control", sock + ".d/control.root"}
	var tries, connected atomic.Int64
	quit := make(chan struct{})
	var racing sync.WaitGroup
	racing.Go(func() {
		runtime.LockOSThread() // it ends with the goroutine, and the rights with it
		for _, call := range []uintptr{unix.SYS_SETFSGID, unix.SYS_SETFSUID} {
			_, _, _ = unix.RawSyscall(call, attacker, 0, 0)
		}
		for {
			for _, path := range paths {
				select {
				case <-quit:
					return
				default:
				}
				_ = os.Link(path, a.dir+"/mine") // another name to keep
				for _, p := range []string{path, a.dir + "/mine"} {
					tries.Add(1)
					if c, err := net.Dial("unix", p); err == nil {
						connected.Add(1)
						_ = c.Close()
					}
				}
			}
		}
	})
	for i := range starts {
		mode := []string{"--socket-mode=0700", "--socket-mode=0770"}[i%2]
		p := startUnhindered(t, func() *process {
			_ = os.Remove(a.dir + "/mine")
			return runDaemon(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), "--backend=usernet", "--state-dir="+a.safe+"/state",
				"--socket-group=root", mode, sock), sock)
		})
		info, err := os.Stat(sock)
		require.NoError(t, err)
		assert.Equal(t, []os.FileMode{0o700, 0o770}[i%2], info.Mode().Perm())
		p.stop(t)
		_ = os.Remove(a.dir + "/mine")
	}
	close(quit)
	racing.Wait()
	t.Logf("%d starts, %d tries to connect", starts, tries.Load())
	assert.Zero(t, connected.Load())
}

// startUnhindered starts a daemon until it serves. One that finds a second name of its socket, made in the moment before it is given
// to its owner, ends: a user that may write in the socket's directory can do that, and other harm.
func startUnhindered(t *testing.T, start func() *process) *process {
	t.Helper()
	for range 20 {
		p := start()
		for end := time.Now().Add(patience); p.alive(); time.Sleep(5 * time.Millisecond) {
			if visit(p.sock) == nil {
				return p
			}
			require.True(t, time.Now().Before(end), "not ready: %s", p.stderr)
		}
		require.Contains(t, p.stderr.String(), "Address already in use")
	}
	t.Fatal("hindered each time")
	return nil
}
