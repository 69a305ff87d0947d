// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// errKilled is of a process that is no more: nothing that it would do afterwards is done.
var errKilled = errors.New("killed")

// A fault happens at one of the changes.
type fault struct {
	at     int
	killed bool // and at all that follow

	n   int
	ops []string
}

// reached reports whether it happened. A change or two depend on the clock: a time that is what it should be is not set.
func (f *fault) reached() bool { return f.n >= f.at }

// hook counts the changes.
func (f *fault) hook(op, path string) error {
	f.n++
	f.ops = append(f.ops, op+" "+path)
	if f.at > 0 && (f.n == f.at || f.killed && f.n > f.at) {
		if f.killed {
			return errKilled
		}
		return syscall.ENOSPC
	}
	if op == "sync" {
		return errSkip
	}
	return nil
}

// with puts the fault into options.
func (f *fault) with(o Options) Options {
	o.hook, o.version = f.hook, "v1.0"
	return o
}

// steps counts the changes that do makes.
func steps(t *testing.T, do func(f *fault) error) int {
	t.Helper()
	f := &fault{}
	require.NoError(t, do(f))
	require.Greater(t, f.n, 10)
	return f.n
}

// everyFault runs try once for each change, with an error there, and with a process that ends there.
func everyFault(t *testing.T, count int, try func(t *testing.T, f *fault)) {
	t.Helper()
	step := 1
	if _, err := os.Stat("/dev/shm"); err != nil {
		step = 5 // on a disk all of them take a minute
	}
	for _, killed := range []bool{false, true} {
		for at := 1; at <= count; at += step {
			f := &fault{at: at, killed: killed}
			if !t.Run(fmt.Sprintf("killed=%v/%d", killed, at), func(t *testing.T) {
				defer func() {
					if t.Failed() {
						t.Logf("all changes: %v", f.ops)
					}
				}()
				try(t, f)
			}) {
				return // the others would say the same
			}
		}
	}
}

// Whatever stops an installation or a rollback, and wherever: the same again, or the other one, does all of it.
func TestFaults(t *testing.T) {
	for _, name := range []string{"nothing", "socket_vmnet", "links", "a state directory of somebody's"} {
		prepare := befores[name]
		from := sourceOf(t, "v1.0")
		start := func(t *testing.T) (stage, tree) {
			s := inMemory(t)
			prepare(t, s)
			return s, s.tree()
		}
		installed := func(t *testing.T) (stage, tree) {
			s, before := start(t)
			install(t, (&fault{}).with(s.options(from)))
			return s, before
		}
		t.Run(name+"/install", func(t *testing.T) {
			s, _ := start(t)
			count := steps(t, func(f *fault) error {
				_, err := Install(t.Context(), f.with(s.options(from)))
				return err
			})
			want := s.tree().timeless()
			everyFault(t, count, func(t *testing.T, f *fault) {
				s, before := start(t)
				_, err := Install(t.Context(), f.with(s.options(from)))
				if f.killed && f.reached() {
					require.Error(t, err)
				}
				switch {
				case err == nil: // there was another way, such as a copy where a link did not do
				case strings.HasSuffix(err.Error(), ": nothing was changed"):
					assert.Equal(t, before.timeless(), s.tree().timeless())
				case !f.killed:
					assert.Contains(t, err.Error(), "do the same again once that is put right, or roll back with /opt/socket_vmnet/share/socket_vmnet2/backup/socket_vmnet2 rollback")
				}
				copied, _ := start(t)
				second := &fault{at: f.at, killed: f.killed}
				_, err2 := Install(t.Context(), second.with(copied.options(from)))
				if f.reached() && second.reached() {
					assert.Equal(t, err == nil, err2 == nil)
				}
				rollback(t, copied.options(""))
				assert.Equal(t, before.timeless(), copied.tree().timeless(), "rolled back")

				install(t, (&fault{}).with(s.options(from)))
				assertSame(t, want, s.tree().timeless())
				rollback(t, s.options(""))
				assert.Equal(t, before.timeless(), s.tree().timeless(), "installed again and rolled back")
			})
		})
		t.Run(name+"/rollback", func(t *testing.T) {
			s, _ := installed(t)
			want := s.tree().timeless()
			count := steps(t, func(f *fault) error {
				_, err := Rollback(t.Context(), f.with(s.options("")))
				return err
			})
			everyFault(t, count, func(t *testing.T, f *fault) {
				for _, again := range []bool{false, true} {
					s, before := installed(t)
					f := &fault{at: f.at, killed: f.killed}
					_, err := Rollback(t.Context(), f.with(s.options("")))
					if f.killed && f.reached() {
						require.Error(t, err)
					}
					if again {
						install(t, (&fault{}).with(s.options(from)))
						assertSame(t, want, s.tree().timeless())
					}
					rollback(t, s.options(""))
					assert.Equal(t, before.timeless(), s.tree().timeless())
				}
			})
		})
	}
}

// assertSame compares trees of installations; what is in the backup may have got there in several ways.
func assertSame(t *testing.T, want, got tree) {
	t.Helper()
	assert.Equal(t, want.without("/opt/socket_vmnet/"+backupDir+"/"+filesDir), got.without("/opt/socket_vmnet/"+backupDir+"/"+filesDir))
	assertTidy(t, got)
}

// killedAt is how a test asks a process of this program to install or roll back, and to be killed at a change.
const killedAt = "SOCKET_VMNET2_INSTALL_KILLED_AT"

func TestMain(m *testing.M) {
	if at := os.Getenv(killedAt); at == "sleep" {
		time.Sleep(time.Hour) // a daemon, which is killed
	} else if at != "" {
		os.Exit(beKilled(at, os.Args[1], os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

// beKilled does it; it returns if there are fewer changes.
func beKilled(at, what, root, from string) int {
	n, err := strconv.Atoi(at)
	if err != nil {
		return 2
	}
	o := Options{Root: root, From: from, chunk: testChunk, hook: func(string, string) error {
		if n--; n <= 0 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}}
	if what == "install" {
		_, err = Install(context.Background(), o)
	} else {
		_, err = Rollback(context.Background(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// The same with a process that is really killed, over and over, in one tree: some change later each time.
func TestKilled(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	run := func(s stage, what, from string, at int) error {
		c := exec.Command(self, what, s.root, from)
		c.Env = append(os.Environ(), killedAt+"="+strconv.Itoa(at))
		out, err := c.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && !exit.Exited() {
			return errKilled
		}
		require.NoError(t, err, "%s", out)
		return nil
	}
	s, from := newStage(t), sourceOf(t, "v1.0")
	s.socketVMNet("v1.2.2")
	before := s.tree()
	kills := 0
	for _, what := range []string{"install", "rollback", "install", "install", "rollback"} {
		for at := 1; ; at += 5 { // what was done is done, so each run is closer to the end
			if run(s, what, from, at) == nil {
				break
			}
			kills++
		}
		if what == "install" {
			assertInstalled(t, s, before, from)
		} else {
			assert.Equal(t, before.timeless(), s.tree().timeless())
		}
	}
	assert.Greater(t, kills, 10)
}

// A file system that takes nothing at all.
func TestReadOnly(t *testing.T) {
	for name, prepare := range befores {
		t.Run(name, func(t *testing.T) {
			s, from := newStage(t), sourceOf(t, "v1.0")
			prepare(t, s)
			before := s.tree()
			o := s.options(from)
			o.hook = func(string, string) error { return syscall.EROFS }
			_, err := Install(t.Context(), o)
			require.ErrorIs(t, err, syscall.EROFS)
			assert.Contains(t, err.Error(), "read-only file system: nothing was changed")
			assert.Equal(t, before, s.tree())

			install(t, s.options(from))
			installed := s.tree()
			_, err = Rollback(t.Context(), o)
			require.ErrorIs(t, err, syscall.EROFS)
			assert.Contains(t, err.Error(), "/opt/socket_vmnet/share/socket_vmnet2/backup/socket_vmnet2 rollback --prefix=/opt/socket_vmnet can do it")
			assert.Equal(t, installed, s.tree())
		})
	}
}

// A program that cannot be replaced, as with chflags schg: what is in front of it is, and everything can be taken back.
func TestImmutable(t *testing.T) {
	s, from := newStage(t), sourceOf(t, "v1.0")
	s.socketVMNet("v1.2.2")
	before := s.tree()
	o := s.options(from)
	o.hook = func(op, path string) error {
		switch {
		case op == "rename" && path == s.path("opt/socket_vmnet/bin/socket_vmnet"):
			return syscall.EPERM
		case op == "sync":
			return errSkip
		}
		return nil
	}
	_, err := Install(t.Context(), o)
	require.ErrorIs(t, err, syscall.EPERM)
	assert.Contains(t, err.Error(), filepath.Join(s.root, "opt/socket_vmnet/bin/socket_vmnet")+": operation not permitted: not everything is installed")
	_, err = Rollback(t.Context(), o)
	require.NoError(t, err, "the one that could not be replaced need not be put back")
	assert.Equal(t, before, s.tree())
}
