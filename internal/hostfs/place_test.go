// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// staleSocket leaves a socket at path that nothing listens on.
func staleSocket(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
}

// TestGiveSwapped: a user who may write in the directory puts another file in the place of the socket just before its
// owner is set. Nothing may happen to that file.
func TestGiveSwapped(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // sockets' paths are short
	open, err := os.Open(dir)
	require.NoError(t, err)
	defer open.Close()
	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	for _, c := range []struct {
		name string
		swap func() error
	}{
		{"symbolic link", func() error { return errors.Join(os.Rename("s", "moved"), os.Symlink(target, "s")) }},
		{"hard link", func() error { return errors.Join(os.Rename("s", "moved"), os.Link(target, "s")) }},
		{"link to the socket", func() error { return errors.Join(os.Rename("s", "moved"), os.Symlink("moved", "s")) }},
		{"second name of the socket", func() error { return os.Link("s", "moved") }},
		{"other socket", func() error {
			staleSocket(t, "moved")
			return os.Rename("moved", "s")
		}},
		{"nothing", func() error { return os.Remove("s") }},
	} {
		for name, at := range map[string]Place{"by path": {Name: filepath.Join(dir, "s")}, "by directory": {Dir: open, Name: "s"}} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				_ = os.Remove("s")
				_ = os.Remove("moved")
				staleSocket(t, "s")
				mine, err := at.Node()
				require.NoError(t, err)
				require.NoError(t, c.swap())
				step, err := at.Give(mine, -1, os.Getegid(), 0o777)
				require.Error(t, err)
				assert.Equal(t, "chown", step)
				fi, err := os.Lstat(target)
				require.NoError(t, err)
				assert.Equal(t, os.FileMode(0o600), fi.Mode())
			})
		}
	}
}

// TestGiveBesideSwapper: whatever another user puts in the place of sockets meanwhile, nothing happens to that user's choice of a file.
func TestGiveBesideSwapper(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("target", nil, 0o600))
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = errors.Join(os.Link("target", "x"), os.Rename("x", "s"))
			}
		}
	})
	given := 0
	for range 1000 {
		_ = os.Remove("s")
		fd, err := NewSocket(unix.SOCK_STREAM)
		require.NoError(t, err)
		at := Place{Name: filepath.Join(dir, "s")}
		if BindPrivate(fd, "s") == nil {
			if n, err := at.Node(); err == nil {
				if _, err := at.Give(n, -1, os.Getegid(), 0o777); err == nil {
					given++
				}
			}
		}
		require.NoError(t, unix.Close(fd))
		fi, err := os.Lstat("target")
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), fi.Mode())
	}
	close(stop)
	swapper.Wait()
	left, err := filepath.Glob(".*")
	require.NoError(t, err)
	assert.Empty(t, left)
	t.Log(given, "of 1000 sockets were given")
}

// TestLockRefuses: a lock that is taken, and a file that is not at its place any more when its lock is taken.
func TestLockRefuses(t *testing.T) {
	at := Place{Name: filepath.Join(t.TempDir(), "lock")}
	anything := func(Node) error { return nil }
	_, err := at.Lock(0, anything)
	require.ErrorIs(t, err, unix.ENOENT)
	f, err := at.Lock(unix.O_CREAT, anything)
	require.NoError(t, err)
	_, err = at.Lock(unix.O_CREAT, anything)
	require.ErrorIs(t, err, unix.EAGAIN)
	require.NoError(t, f.Close())
	_, err = at.Lock(0, func(Node) error { return os.Remove(at.Name) })
	require.ErrorIs(t, err, unix.EAGAIN)
	_, err = at.Lock(unix.O_CREAT, func(Node) error { return unix.EMLINK })
	require.ErrorIs(t, err, unix.EMLINK)
}
