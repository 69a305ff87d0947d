// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

const (
	// attacker is a user that prepares paths for the daemon, and shares no group with it.
	attacker   = 4242
	daemonUser = 65534
)

// An arena is a directory where all users may make files, as in /tmp, and what an attacker is after.
type arena struct {
	*testing.T
	dir    string // of SOCKET and the pidfile
	safe   string // a directory that only the daemon's user writes in
	victim string // a file of the daemon's user
	user   int    // the daemon's
}

func newArena(t *testing.T, user int) *arena {
	t.Helper()
	top := vnettest.ShortDir(t)
	a := &arena{T: t, dir: top + "/d", safe: top + "/safe", victim: top + "/safe/victim", user: user}
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
	a.Helper()
	for _, p := range paths {
		require.NoError(a, os.Lchown(p, user, user))
	}
}

// link is the attacker's way to another file. The directories above it are the daemon's.
func (a *arena) link(path, target string) {
	a.Helper()
	for dir := filepath.Dir(path); dir != a.dir && dir != a.safe; dir = filepath.Dir(dir) {
		require.NoError(a, os.MkdirAll(dir, 0o750))
		a.own(a.user, dir)
	}
	require.NoError(a, os.Symlink(target, path))
	a.own(attacker, path)
}

// look is all that can be told of the files in the arena.
func (a *arena) look() map[string]string {
	all := map[string]string{}
	require.NoError(a, filepath.WalkDir(filepath.Dir(a.dir), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		all[path] = fmt.Sprintf("mode %o uid %d gid %d ino %d", st.Mode, st.Uid, st.Gid, st.Ino)
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			b, err := os.ReadFile(path)
			all[path] += fmt.Sprintf(" content %q %v", b, err)
		}
		return nil
	}))
	return all
}

// An attack is a link at a path, or another user's directory. A stands for the arena's directory, S for the safe one, F for the
// name of the state's file. The daemon refuses to start with want, or runs and may warn with it.
type attack struct {
	path, stateDir string
	directory      bool
	runs           bool
	want           string
}

// attacks has each file and directory that the daemon makes, once. What else may lie there, such as a fifo or a hard link, is
// tested where the file is made: packages compat, rundir, hostfs and state.
var attacks = []attack{
	{path: "A/s", want: "ERROR| bind: Address already in use: "},
	{path: "A/s.lock", want: "ERROR| bind: "}, // in a sticky directory Linux itself may forbid it
	{path: "A/pid", want: `pid": Too many levels of symbolic links` + "\n"},
	{path: "A/s.d", runs: true, want: "it is not a directory, or it is a link"},
	{path: "A/s.d", directory: true, runs: true, want: "it belongs to user 4242, not to us"},
	{path: "A/s.d/lock", runs: true, want: "WARN | datagram clients and passed descriptors are not served"},
	{path: "A/s.d/dgram", runs: true, want: "it is not a directory, or it is a link"},
	{path: "A/s.d/dgram/sock", runs: true, want: "something is there that is not a socket"},
	{path: "A/s.d/attach", runs: true, want: "something is there that is not a socket"},
	{path: "A/s.d/adopt", runs: true, want: "something is there that is not a socket"},
	{path: "A/state", stateDir: "A/state", runs: true, want: "WARN | state is not kept"},
	{path: "A/state", stateDir: "A/state", directory: true, runs: true, want: "WARN | state is not kept"},
	{path: "S/state/F", runs: true, want: "WARN | state file ignored"},
	{path: "S/state/F.tmp", runs: true},
}

// TestAttacksOnPaths: whatever another user prepares where the daemon makes its files, nothing is touched that this user may not touch.
func TestAttacksOnPaths(t *testing.T) {
	vnettest.NeedRoot(t)
	require.NoError(t, os.Chmod(binaries, 0o755))
	for _, user := range []int{0, daemonUser} {
		for _, x := range attacks {
			t.Run(fmt.Sprintf("user %d/%s, directory %t", user, x.path, x.directory), func(t *testing.T) { newArena(t, user).stand(x) })
		}
	}
}

func (a *arena) stand(x attack) {
	names := strings.NewReplacer("A/", a.dir+"/", "S/", a.safe+"/", "F", state.FileName(a.dir+"/s"))
	if path := names.Replace(x.path); x.directory {
		require.NoError(a, os.Mkdir(path, 0o755))
		a.own(attacker, path)
	} else {
		a.link(path, a.victim)
	}
	before := a.look()
	if x.stateDir == "" {
		x.stateDir = "S/state"
	}
	cmd := exec.Command(filepath.Join(binaries, "socket_vmnet2"), "--backend=usernet", "--pidfile="+a.dir+"/pid",
		"--state-dir="+names.Replace(x.stateDir), a.dir+"/s")
	if a.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.user), Gid: uint32(a.user)}}
	}
	p := runDaemon(a.T, cmd, a.dir+"/s")
	if x.runs {
		p.logsPidfile(a.T, a.dir+"/pid")
		p.stop(a.T)
	} else {
		p.exits(a.T, 1)
	}
	p.says(a.T, x.want)
	after := a.look()
	assert.Equal(a, before[a.victim], after[a.victim])
	for path, was := range before {
		assert.True(a, x.runs || was == after[path], "%s: all is as it was", path)
	}
}

// TestRootAndItsEnvironment: a daemon of root's that a user starts, by sudo for example, goes nowhere that the environment says.
func TestRootAndItsEnvironment(t *testing.T) {
	vnettest.NeedRoot(t)
	dir := vnettest.ShortDir(t)
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

// TestPidfileThatCannotBeWritten: the daemon does not start, says why, and leaves nothing. A disk that is full for the state or the log
// is what packages state and compat test.
func TestPidfileThatCannotBeWritten(t *testing.T) {
	dir := vnettest.ShortDir(t)
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
