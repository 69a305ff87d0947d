// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

const (
	otherUser  = 65534
	otherGroup = 65533
)

// children are what this test binary can be when it is started as another process, mostly as another user.
var children = map[string]func(args []string) error{
	"client": clientChild,
	"daemon": daemonChild,
}

func TestMain(m *testing.M) {
	if name := os.Getenv("RUNDIR_TEST_CHILD"); name != "" {
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childAs is a command that runs one of the children as another user, with the given groups.
func childAs(t *testing.T, uid, gid uint32, name string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	b, err := os.ReadFile(exe)
	require.NoError(t, err)
	reachable := filepath.Join(tempDir(t), "exe")
	require.NoError(t, os.WriteFile(reachable, b, 0o755))
	cmd := exec.CommandContext(t.Context(), reachable, args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "RUNDIR_TEST_CHILD="+name, "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

// tempDir is a directory that all users can reach and whose name leaves room for that of a socket.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rd")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// owner is one that any user may set.
func owner() compat.Owner {
	return compat.Owner{UID: -1, GID: os.Getegid(), Mode: 0o770, MustGroup: true}
}

// open is Open for the given SOCKET, with no --runtime-dir.
func open(t *testing.T, socket string) *Dir {
	t.Helper()
	d, err := Open(Options{Socket: socket, Owner: owner(), Log: discard()})
	require.NoError(t, err)
	t.Cleanup(d.Remove)
	return d
}

// all makes each kind of socket, which the test closes.
func all(t *testing.T, d *Dir) {
	t.Helper()
	for _, name := range []string{"attach", "adopt"} {
		ln, err := d.Listen(name, false)
		require.NoError(t, err)
		t.Cleanup(func() { _ = ln.Close() })
	}
	c, err := d.ListenDatagram()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
}

// reached are the paths that clients reach: all but the name that the datagram socket had at first.
func (d *Dir) reached() []string {
	return slices.DeleteFunc(d.Paths(), func(p string) bool { return strings.HasSuffix(p, "/"+newName) })
}

// tree lists everything below dir with kind, mode, owner and group.
func tree(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		n, err := hostfs.Place{Name: path}.Node()
		require.NoError(t, err)
		kind := map[uint32]string{
			unix.S_IFDIR: "dir", unix.S_IFSOCK: "socket", unix.S_IFREG: "file", unix.S_IFLNK: "link", unix.S_IFIFO: "fifo",
		}[n.Kind()]
		list = append(list, fmt.Sprintf("%s %s %04o %d:%d", strings.TrimPrefix(path, dir+"/"), kind, n.Mode&0o7777, n.UID, n.GID))
		return nil
	}))
	return list
}

func TestLife(t *testing.T) {
	dir := tempDir(t)
	me, group := os.Geteuid(), os.Getegid()
	for _, round := range []string{"first", "again", "after a crash"} {
		t.Run(round, func(t *testing.T) {
			d, err := Open(Options{Socket: dir + "/s", Owner: owner(), Log: discard()})
			require.NoError(t, err)
			assert.Empty(t, d.Paths())
			attach, err := d.Listen("attach", false)
			require.NoError(t, err)
			adopt, err := d.Listen("adopt", false)
			require.NoError(t, err)
			private, err := d.Listen("control.root", true)
			require.NoError(t, err)
			gram, err := d.ListenDatagram()
			require.NoError(t, err)
			assert.Equal(t, []string{dir + "/s.d/attach", dir + "/s.d/adopt", dir + "/s.d/control.root", dir + "/s.d/dgram/sock"}, d.reached())
			var want []string
			for _, line := range []string{
				"s.d dir 0750", "s.d/adopt socket 0770", "s.d/attach socket 0770", "s.d/control.root socket 0600", "s.d/dgram dir 1770", "s.d/dgram/sock socket 0770", "s.d/lock file 0600",
			} {
				want = append(want, fmt.Sprintf("%s %d:%d", line, me, group))
			}
			assert.Equal(t, want, tree(t, dir))
			useStream(t, attach, dir+"/s.d/attach")
			useStream(t, adopt, dir+"/s.d/adopt")
			useStream(t, private, dir+"/s.d/control.root")
			useDatagram(t, gram, dir+"/s.d/dgram/client", dir+"/s.d/dgram/sock")

			require.NoError(t, attach.Close())
			require.NoError(t, adopt.Close())
			require.NoError(t, private.Close())
			require.NoError(t, gram.Close())
			assert.Equal(t, want, tree(t, dir), "closing leaves the paths alone")
			if round == "again" { // as if it had been killed
				for _, f := range []*os.File{d.dir, d.lock, d.parent} {
					require.NoError(t, f.Close())
				}
				return
			}
			d.Remove()
			d.Remove()
			assert.Empty(t, tree(t, dir))
			assert.Empty(t, d.Paths())
			_, err = d.Listen("attach", false)
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

// useStream connects to path and finds ln there.
func useStream(t *testing.T, ln *net.UnixListener, path string) {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	s, err := ln.Accept()
	require.NoError(t, err)
	require.NoError(t, errors.Join(s.Close(), c.Close()))
}

// useDatagram sends to path from a socket at local, as vfkit does, and finds c there.
func useDatagram(t *testing.T, c *net.UnixConn, local, path string) {
	t.Helper()
	s, err := net.DialUnix("unixgram", &net.UnixAddr{Name: local, Net: "unixgram"}, &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { _ = os.Remove(local) }()
	defer func() { _ = s.Close() }()
	_, err = s.Write([]byte("VFKT"))
	require.NoError(t, err)
	b := make([]byte, 8)
	n, from, err := c.ReadFromUnix(b)
	require.NoError(t, err)
	assert.Equal(t, "VFKT", string(b[:n]))
	assert.Equal(t, local, from.Name)
	_, err = c.WriteToUnix([]byte("back"), from)
	require.NoError(t, err)
	n, err = s.Read(b)
	require.NoError(t, err)
	assert.Equal(t, "back", string(b[:n]))
}

func TestForeignParent(t *testing.T) {
	vnettest.NeedRoot(t)
	dir := tempDir(t)
	require.NoError(t, os.Chown(dir, otherUser, otherGroup))
	_, err := Open(Options{Socket: dir + "/s", Owner: owner(), Log: discard()})
	require.ErrorIs(t, err, ErrNone)
	d, err := Open(Options{Socket: "/nowhere/s", Dir: dir + "/r", Owner: owner(), Log: discard()})
	require.NoError(t, err, "a user that asks for it gets it")
	all(t, d)
	d.Remove()
	assert.Empty(t, tree(t, dir))
}

// TestModes: whom SOCKET's mode keeps out as a member of the group is kept out here.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode               os.FileMode
		dir, dgram, socket uint32
	}{
		{0o770, 0o750, 0o1770, 0o770},
		{0o700, 0o700, 0o1700, 0o700},
		{0o750, 0o700, 0o1700, 0o700}, // connecting needs the right to write
		{0, 0o700, 0o1700, 0o700},
	} {
		t.Run(fmt.Sprintf("%04o", c.mode), func(t *testing.T) {
			dir := tempDir(t)
			o := owner()
			o.Mode = c.mode
			d, err := Open(Options{Socket: dir + "/s", Owner: o, Log: discard()})
			require.NoError(t, err)
			defer d.Remove()
			all(t, d)
			got := strings.Join(tree(t, dir), "\n")
			for name, mode := range map[string]uint32{
				"s.d dir": c.dir, "s.d/dgram dir": c.dgram, "s.d/attach socket": c.socket, "s.d/adopt socket": c.socket, "s.d/dgram/sock socket": c.socket,
			} {
				assert.Contains(t, got, fmt.Sprintf("%s %04o ", name, mode))
			}
		})
	}
}

func TestGroup(t *testing.T) {
	vnettest.NeedRoot(t)
	dir := tempDir(t)
	o := compat.Owner{UID: 12345, GID: otherGroup, Mode: 0o770, MustGroup: true}
	d, err := Open(Options{Socket: dir + "/s", Owner: o, Log: discard()})
	require.NoError(t, err)
	all(t, d)
	for _, line := range tree(t, dir) {
		if want := fmt.Sprintf(" 0:%d", otherGroup); !strings.Contains(line, "lock") {
			assert.Contains(t, line, want, "the group is the socket's, the owner always the daemon's user")
		}
	}
	d.Remove()

	o.GID = -1 // the default group does not exist
	o.MustGroup = false
	require.NoError(t, os.Chown(dir, 0, otherGroup))
	require.NoError(t, os.Chmod(dir, os.ModeSetgid|0o775)) // macOS gives each new file the group of its directory
	d, err = Open(Options{Socket: dir + "/s", Owner: o, Log: discard()})
	require.NoError(t, err)
	all(t, d)
	for _, line := range tree(t, dir) {
		assert.True(t, strings.HasSuffix(line, " 0:0") || strings.HasPrefix(line, "s.d/lock file 0600 "), line)
	}
	d.Remove()
	assert.Empty(t, tree(t, dir))
}

func TestPathLength(t *testing.T) {
	dir := tempDir(t)
	longest := dir + "/" + strings.Repeat("x", compat.MaxSocketPath-len(compat.LongestRuntimePath)-len(dir)-1)
	for _, o := range []Options{{Socket: strings.TrimSuffix(longest, "xx")}, {Dir: longest}} {
		o.Owner, o.Log = owner(), discard()
		d, err := Open(o)
		require.NoError(t, err)
		c, err := d.ListenDatagram()
		require.NoError(t, err)
		useDatagram(t, c, dir+"/c", d.Paths()[0])
		require.NoError(t, c.Close())
		d.Remove()
		assert.Empty(t, tree(t, dir))

		o.Socket += "x"
		if o.Dir != "" {
			o.Dir += "x"
		}
		_, err = Open(o)
		require.ErrorContains(t, err, fmt.Sprintf("/dgram/sock has %d bytes, the path of a socket %d at most", compat.MaxSocketPath+1, compat.MaxSocketPath))
		require.NotErrorIs(t, err, ErrNone)
		assert.Empty(t, tree(t, dir))
	}
}

// TestRelative: SOCKET may be a relative path, and its name a strange one.
func TestRelative(t *testing.T) {
	dir := tempDir(t)
	require.NoError(t, os.Mkdir(dir+"/a", 0o755))
	t.Chdir(dir + "/a")
	for _, c := range []struct{ socket, want string }{
		{"s", dir + "/a/s.d"},
		{"../s", dir + "/s.d"},
		{"@s", dir + "/a/@s.d"},
		{".", dir + "/a/..d"},
	} {
		t.Run(c.socket, func(t *testing.T) {
			d := open(t, c.socket)
			all(t, d)
			assert.Equal(t, []string{c.want + "/attach", c.want + "/adopt", c.want + "/dgram/sock"}, d.reached())
			for _, p := range d.reached() {
				fi, err := os.Lstat(p)
				require.NoError(t, err)
				assert.Equal(t, fs.ModeSocket, fi.Mode().Type())
			}
			d.Remove()
			assert.Equal(t, []string{fmt.Sprintf("a dir 0755 %d:%d", os.Geteuid(), os.Getegid())}, tree(t, dir))
		})
	}
}

// TestRestoreRefuses a directory that is none, and gives back what it has taken.
func TestRestoreRefuses(t *testing.T) {
	d := open(t, tempDir(t)+"/s")
	var o handover.Out
	s, err := d.Save(&o)
	require.NoError(t, err)
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var back Saved
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, s, back)
	for _, fd := range s.FDs {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
	}
	_, err = Restore(&handover.In{}, s, discard())
	require.ErrorContains(t, err, "take over the runtime directory "+s.Path+": take descriptor")
	d.Remove()
	_, err = d.Save(&o)
	require.ErrorIs(t, err, net.ErrClosed)
}
