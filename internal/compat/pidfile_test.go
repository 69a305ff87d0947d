// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// childVar has this test binary be groupChild.
const childVar = "COMPAT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(groupChild(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// entries are the names in dir, hidden ones too.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// openText is socket_vmnet's text for a pidfile that cannot be claimed.
func openText(path, why string) string {
	return fmt.Sprintf("Failed to open pidfile: %q: %s", path, why)
}

// acquire claims a path that no other has.
func acquire(t *testing.T, path string) *Pidfile {
	t.Helper()
	p, err := AcquirePidfile(path, discard())
	require.NoError(t, err)
	return p
}

// taken checks that another has the path, and which number is in the file.
func taken(t *testing.T, path, content string) {
	t.Helper()
	_, err := AcquirePidfile(path, discard())
	require.EqualError(t, err, openText(path, "Resource temporarily unavailable"))
	holds(t, path, content)
}

// holds checks a file's content.
func holds(t *testing.T, path, content string) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, content, string(b))
}

func TestPidfileLife(t *testing.T) {
	for name, stale := range map[string]string{"nothing there": "", "stale file with a longer content": "123456789\nand more\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "p")
			if stale != "" {
				require.NoError(t, os.WriteFile(path, []byte(stale), 0o644))
			}
			before := entries(t, dir)
			var log bytes.Buffer
			p, err := AcquirePidfile(path, NewLogger(&log, slog.LevelInfo))
			require.NoError(t, err)
			assert.Equal(t, before, entries(t, dir), "acquiring makes nothing")
			if stale != "" {
				taken(t, path, stale)
			}
			require.NoError(t, p.Publish(4711))
			assert.Equal(t, []string{"p"}, entries(t, dir))
			fi, err := os.Stat(path)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o644), fi.Mode())
			taken(t, path, "4711")
			for range 2 {
				p.Release()
				assert.Empty(t, entries(t, dir))
			}
			assert.Equal(t, fmt.Sprintf("INFO | Created pidfile %q for process 4711\nINFO | Removed pidfile %q for process 4711\n", path, path), log.String())
		})
	}
}

// TestPidfileFailedStart: a daemon that ends before it is ready leaves no file, not even an old one.
func TestPidfileFailedStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p")
	acquire(t, path).Release()
	require.NoError(t, os.WriteFile(path, []byte("999999"), 0o644))
	acquire(t, path).Release()
	assert.Empty(t, entries(t, dir))
}

// TestPidfileNotOurs: a file that took the place of ours stays.
func TestPidfileNotOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	require.NoError(t, os.WriteFile(path+".x", []byte("another's"), 0o644))
	require.NoError(t, os.Link(path+".x", path))
	p := acquire(t, path)
	require.NoError(t, p.Publish(1))
	holds(t, path+".x", "another's") // a file with this name is replaced, not written to
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("2"), 0o644))
	p.Release()
	holds(t, path, "2")
}

func TestPidfileRefused(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	require.NoError(t, os.WriteFile(target, []byte("keep"), 0o644))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(target, link))
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	before := entries(t, dir)
	for _, c := range []struct{ name, path, why string }{
		{"directory", dir, "Is a directory"},
		{"device", os.DevNull, "Invalid argument"},
		{"fifo", fifo, "Invalid argument"},
		{"link", link, "Too many levels of symbolic links"},
		{"no such directory", filepath.Join(dir, "no", "p"), "No such file or directory"},
		{"below a file", filepath.Join(target, "p"), "Not a directory"},
		{"empty", "", "No such file or directory"},
		{"name too long", filepath.Join(dir, strings.Repeat("x", 300)), "File name too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := AcquirePidfile(c.path, discard())
			require.EqualError(t, err, openText(c.path, c.why))
			assert.Equal(t, before, entries(t, dir))
			holds(t, target, "keep")
		})
	}
}

// TestPidfileUpstream has a running socket_vmnet, whose O_EXLOCK is an flock, hold the file.
func TestPidfileUpstream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	taken(t, path, "")
	require.NoError(t, f.Close()) // it dies and leaves its file
	p := acquire(t, path)
	require.NoError(t, p.Publish(43))
	// And the other way round: a socket_vmnet that comes now does not get the lock.
	f, err = os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	require.ErrorIs(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EAGAIN)
	p.Release()
}

// TestPidfileTakenBeforePublish: both daemons found nothing, or one that locked a stale file that was removed; the other one was ready first.
func TestPidfileTakenBeforePublish(t *testing.T) {
	for _, stale := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "p")
		if stale {
			require.NoError(t, os.WriteFile(path, []byte("1"), 0o644))
		}
		late := acquire(t, path)
		if stale { // by an uninstaller
			require.NoError(t, os.Remove(path))
		}
		first := acquire(t, path)
		require.NoError(t, first.Publish(2))
		require.EqualError(t, late.Publish(3), openText(path, "Resource temporarily unavailable"))
		late.Release()
		holds(t, path, "2")
		assert.Equal(t, []string{"p"}, entries(t, dir))
		first.Release()
		assert.Empty(t, entries(t, dir))
	}
}

// TestPidfileRemovedBeforePublish: an uninstaller removed the stale file that was locked.
func TestPidfileRemovedBeforePublish(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	require.NoError(t, os.WriteFile(path, []byte("1"), 0o644))
	p := acquire(t, path)
	require.NoError(t, os.Remove(path))
	require.NoError(t, p.Publish(2))
	holds(t, path, "2")
	p.Release()
}

// TestPidfileHandover has one owner after the other take the path, each before the last one lets go. At every moment
// one has it, so no other may get it, not even by locking a file that has just lost its name.
func TestPidfileHandover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	p := &Pidfile{at: hostfs.Place{Name: path}, log: discard()}
	owner, err := p.temporary(1)
	require.NoError(t, err)
	require.NoError(t, os.Rename(owner.Name(), path))
	stop := make(chan struct{})
	failed := make(chan error)
	go func() {
		for {
			next, err := p.temporary(1)
			if err == nil {
				err = os.Rename(next.Name(), path)
			}
			if err != nil {
				failed <- err
				return
			}
			_ = owner.Close()
			owner = next
			select {
			case <-stop:
				failed <- owner.Close()
				return
			default:
			}
		}
	}()
	for range 5000 {
		if _, err = AcquirePidfile(path, discard()); !errors.Is(err, syscall.EAGAIN) {
			break
		}
	}
	close(stop)
	require.NoError(t, <-failed)
	require.ErrorIs(t, err, syscall.EAGAIN)
}
