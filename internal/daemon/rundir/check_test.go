// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestRepaired: a directory of our own with another mode is set right, what is in it stays or is replaced.
func TestRepaired(t *testing.T) {
	for _, c := range []struct{ dir, dgram uint32 }{
		{0o700, 0o700}, {0o1777, 0o777}, {0o6777, 0o2777}, {0o750, 0o755},
	} {
		t.Run(fmt.Sprintf("%04o %04o", c.dir, c.dgram), func(t *testing.T) {
			dir := tempDir(t)
			require.NoError(t, os.MkdirAll(dir+"/s.d/dgram", 0o700))
			for _, name := range []string{"attach", "adopt", "control", "dgram/sock", "dgram/client"} {
				require.NoError(t, socketAt(dir+"/s.d/"+name))
			}
			require.NoError(t, os.WriteFile(dir+"/s.d/lock", nil, 0o600))
			require.NoError(t, unix.Chmod(dir+"/s.d/dgram", c.dgram))
			require.NoError(t, unix.Chmod(dir+"/s.d", c.dir))
			d := open(t, dir+"/s")
			all(t, d)
			got := tree(t, dir)
			assert.Contains(t, got, fmt.Sprintf("s.d dir 0750 %d:%d", os.Geteuid(), os.Getegid()))
			assert.Contains(t, got, fmt.Sprintf("s.d/dgram dir 1770 %d:%d", os.Geteuid(), os.Getegid()))
			assert.Contains(t, got, fmt.Sprintf("s.d/attach socket 0770 %d:%d", os.Geteuid(), os.Getegid()))
			d.Remove()
			assert.NoFileExists(t, dir+"/s.d/attach")
			assert.FileExists(t, dir+"/s.d/dgram/client", "a client's socket stays")
			assert.FileExists(t, dir+"/s.d/control", "it was not asked for")
		})
	}
}

// TestRefused is what may be in the place of the directory, or in it. Nothing of it is touched.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		root bool // needs root
		make func(dir string) error
		want string
	}{
		{"link to a directory", false, func(dir string) error { return os.Symlink("elsewhere", dir+"/s.d") }, "not a directory, or it is a link"},
		{"file", false, func(dir string) error { return os.WriteFile(dir+"/s.d", nil, 0o600) }, "not a directory, or it is a link"},
		{"another user's", true, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o750), os.Chown(dir+"/s.d", otherUser, 0))
		}, "s.d: it belongs to user 65534, not to us (user 0): remove it, or give another one with --runtime-dir"},
		{"for another purpose", false, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o755), os.WriteFile(dir+"/s.d/10-defaults", nil, 0o600))
		}, `it holds "10-defaults", so it seems to serve another purpose`},
		{"link for dgram", false, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o750), os.Symlink("../elsewhere", dir+"/s.d/dgram"))
		}, "s.d/dgram: it is not a directory, or it is a link"},
		{"another user's dgram", true, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o750), os.Mkdir(dir+"/s.d/dgram", 0o750), os.Chown(dir+"/s.d/dgram", otherUser, 0))
		}, "s.d/dgram: it belongs to user 65534"},
		{"link for lock", false, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o750), os.Symlink("nothing", dir+"/s.d/lock"))
		}, "s.d/lock: "},
		{"directory for lock", false, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o750), os.Mkdir(dir+"/s.d/lock", 0o700))
		}, "s.d/lock: is a directory"},
		{"second name of the lock", false, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o750), os.WriteFile(dir+"/s.d/lock", nil, 0o600), os.Link(dir+"/s.d/lock", dir+"/other"))
		}, "s.d/lock: it is not a file of ours"},
		{"another user's lock", true, func(dir string) error {
			return chain(os.Mkdir(dir+"/s.d", 0o750), os.WriteFile(dir+"/s.d/lock", nil, 0o600), os.Chown(dir+"/s.d/lock", otherUser, 0))
		}, "s.d/lock: it is not a file of ours"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				vnettest.NeedRoot(t)
			}
			dir := tempDir(t)
			require.NoError(t, os.Mkdir(dir+"/elsewhere", 0o755))
			require.NoError(t, c.make(dir))
			before := tree(t, dir)
			_, err := Open(Options{Socket: dir + "/s", Owner: owner(), Log: discard()})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, dir+"/s.d")
			require.NotErrorIs(t, err, ErrNone)
			after := tree(t, dir)
			assert.Subset(t, after, before)
			assert.LessOrEqual(t, len(after), len(before), "nothing is left behind: %v", after)
		})
	}
}

// chain is the first error of steps that have been taken.
func chain(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestGiven is --runtime-dir with a directory that exists.
func TestGiven(t *testing.T) {
	given := func(path string) (*Dir, error) {
		return Open(Options{Socket: "/nowhere/s", Dir: path, Owner: owner(), Log: discard()})
	}
	for _, mode := range []uint32{0o700, 0o2755} {
		t.Run(fmt.Sprintf("mode %04o", mode), func(t *testing.T) {
			dir := tempDir(t)
			require.NoError(t, os.Mkdir(dir+"/r", 0o700))
			require.NoError(t, os.WriteFile(dir+"/r/other", nil, 0o600))
			require.NoError(t, unix.Chmod(dir+"/r", mode))
			before := tree(t, dir)
			d, err := given(dir + "/r/")
			require.NoError(t, err)
			all(t, d)
			assert.Subset(t, tree(t, dir), before, "its mode is the user's matter, and what else is in it")
			assert.Contains(t, tree(t, dir), fmt.Sprintf("r/dgram dir 1770 %d:%d", os.Geteuid(), os.Getegid()))
			d.Remove()
			assert.Equal(t, before, tree(t, dir), "it stays")
		})
	}
	for _, mode := range []uint32{0o770, 0o1777} {
		t.Run(fmt.Sprintf("mode %04o is refused", mode), func(t *testing.T) {
			dir := tempDir(t)
			require.NoError(t, unix.Chmod(dir, mode))
			_, err := given(dir)
			require.EqualError(t, err, fmt.Sprintf("runtime directory %s: others may write in it (mode %#o): chmod go-w %s, "+
				"or give another one with --runtime-dir", dir, mode, dir))
			assert.Empty(t, tree(t, dir))
		})
	}
	t.Run("does not exist", func(t *testing.T) {
		dir := tempDir(t)
		d, err := given(dir + "/r")
		require.NoError(t, err)
		all(t, d)
		assert.Contains(t, tree(t, dir), fmt.Sprintf("r dir 0750 %d:%d", os.Geteuid(), os.Getegid()))
		d.Remove()
		assert.Empty(t, tree(t, dir), "we made it")
	})
	t.Run("no parent", func(t *testing.T) {
		_, err := given("/nowhere/r")
		require.EqualError(t, err, "runtime directory /nowhere/r: open /nowhere: no such file or directory")
	})
	t.Run("link", func(t *testing.T) {
		dir := tempDir(t)
		require.NoError(t, os.Symlink("/", dir+"/r"))
		for _, path := range []string{dir + "/r", dir + "/r/"} {
			_, err := given(path)
			require.ErrorContains(t, err, "it is not a directory, or it is a link: give another one", "no user is told to remove what was named")
		}
	})
	t.Run("with another dgram", func(t *testing.T) {
		dir := tempDir(t)
		require.NoError(t, os.Mkdir(dir+"/dgram", 0o755))
		_, err := given(dir)
		require.ErrorContains(t, err, "dgram: its mode is 0755, not 01770: remove it")
		assert.Len(t, tree(t, dir), 1)
	})
}

// TestInTheWay is what may lie at a socket's name.
func TestInTheWay(t *testing.T) {
	listen := map[string]func(d *Dir) error{
		"attach": func(d *Dir) error {
			ln, err := d.Listen("attach", false)
			if err == nil {
				err = ln.Close()
			}
			return err
		},
		"dgram/sock": func(d *Dir) error {
			c, err := d.ListenDatagram()
			if err == nil {
				err = c.Close()
			}
			return err
		},
	}
	kinds := []struct {
		name string
		make func(path string) error
		ok   bool
	}{
		{"file", func(path string) error { return os.WriteFile(path, []byte("keep"), 0o600) }, false},
		{"directory", func(path string) error { return os.Mkdir(path, 0o700) }, false},
		{"link", func(path string) error { return os.Symlink("/dev/null", path) }, false},
		{"link to a socket", func(path string) error { return chain(socketAt(path+".x"), os.Symlink(path+".x", path)) }, false},
		{"fifo", func(path string) error { return unix.Mkfifo(path, 0o600) }, false},
		{"stale socket", socketAt, true},
		{"second name of a socket", func(path string) error { return chain(socketAt(path+".x"), os.Link(path+".x", path)) }, true},
	}
	for name, call := range listen {
		for _, k := range kinds {
			t.Run(name+" "+k.name, func(t *testing.T) {
				dir := tempDir(t)
				d := open(t, dir+"/s")
				path := dir + "/s.d/" + name
				require.NoError(t, k.make(path))
				before := tree(t, dir)
				err := call(d)
				if k.ok {
					require.NoError(t, err)
					assert.Equal(t, []string{path}, d.reached())
					return
				}
				require.EqualError(t, err, fmt.Sprintf("make socket %s: something is there that is not a socket: remove it", path))
				assert.Equal(t, before, tree(t, dir))
				assert.Empty(t, d.Paths())
				d.Remove()
				_, err = os.Lstat(path)
				require.NoError(t, err, "nor is it removed at the end")
			})
		}
	}
	t.Run("another user's sockets", func(t *testing.T) {
		vnettest.NeedRoot(t)
		dir := tempDir(t)
		d := open(t, dir+"/s")
		for name := range listen {
			require.NoError(t, chain(socketAt(dir+"/s.d/"+name), os.Chown(dir+"/s.d/"+name, otherUser, otherGroup)))
		}
		require.EqualError(t, listen["attach"](d), fmt.Sprintf("make socket %s/s.d/attach: there is one of user 65534, not ours (user 0): remove it", dir))
		require.NoError(t, listen["dgram/sock"](d), "a user that may bind in dgram cannot keep us out")
		assert.Contains(t, tree(t, dir), "s.d/dgram/sock socket 0770 0:0")
	})
}

func socketAt(path string) error {
	s, err := hostfs.NewSocket(unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	return unix.Bind(s, &unix.SockaddrUnix{Name: path})
}

// TestRemoveLeaves: what was put in the place of ours stays.
func TestRemoveLeaves(t *testing.T) {
	dir := tempDir(t)
	d := open(t, dir+"/s")
	all(t, d)
	require.NoError(t, os.Remove(dir+"/s.d/attach"))
	require.NoError(t, socketAt(dir+"/s.d/attach"))
	require.NoError(t, socketAt(dir+"/s.d/dgram/vfkit-1.sock"))
	d.Remove()
	me := fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
	assert.Equal(t, []string{"s.d", "s.d/attach", "s.d/dgram", "s.d/dgram/vfkit-1.sock"}, names(t, dir))
	assert.Contains(t, tree(t, dir), "s.d/dgram dir 1770 "+me, "the next daemon finds it as it is")

	t.Run("another directory", func(t *testing.T) {
		dir := tempDir(t)
		d := open(t, dir+"/s")
		all(t, d)
		require.NoError(t, os.Rename(dir+"/s.d", dir+"/moved"))
		require.NoError(t, os.Mkdir(dir+"/s.d", 0o700))
		require.NoError(t, socketAt(dir+"/s.d/attach"))
		d.Remove()
		assert.Equal(t, []string{"moved", "s.d", "s.d/attach"}, names(t, dir), "our sockets are gone, the moved directory is not ours any more")
	})
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	for _, line := range tree(t, dir) {
		var name string
		_, err := fmt.Sscan(line, &name)
		require.NoError(t, err)
		list = append(list, name)
	}
	return list
}
