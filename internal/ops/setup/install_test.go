// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// befores are what may be there before an installation.
var befores = map[string]func(t testing.TB, s stage){
	"nothing": func(testing.TB, stage) {},
	"opt":     func(t testing.TB, s stage) { require.NoError(t, os.Mkdir(s.path("opt"), 0o755)) },
	"an empty prefix": func(t testing.TB, s stage) {
		require.NoError(t, os.MkdirAll(s.path("opt/socket_vmnet"), 0o755))
		require.NoError(t, os.Chtimes(s.path("opt/socket_vmnet"), oldTime, oldTime))
	},
	"socket_vmnet": func(_ testing.TB, s stage) { s.socketVMNet("v1.2.2") },
	"half of socket_vmnet": func(_ testing.TB, s stage) {
		s.file("opt/socket_vmnet/bin/socket_vmnet_client", "client", 0o4711)
		s.file("opt/socket_vmnet/bin/.socket_vmnet.swp", "not ours", 0o600)
	},
	"links": func(t testing.TB, s stage) {
		s.file("usr/local/Cellar/socket_vmnet", "of Homebrew", 0o555)
		s.link("opt/socket_vmnet/bin/socket_vmnet", "../../../usr/local/Cellar/socket_vmnet")
		s.link("opt/socket_vmnet/bin/socket_vmnet_client", "/nowhere")
		s.file("usr/share/dir/file", "stays", 0o644)
		s.link("opt/socket_vmnet/libexec/vmnet-helper", "../../../usr/share/dir")
		require.NoError(t, os.Chtimes(s.path("opt/socket_vmnet/bin"), oldTime, oldTime))
	},
	"an older one of ours, unpacked": func(t testing.TB, s stage) {
		from := sourceOf(t, "v0.9")
		for _, target := range targets {
			b, err := os.ReadFile(filepath.Join(from, filepath.Base(target)))
			require.NoError(t, err)
			s.file("opt/socket_vmnet/"+target, string(b), 0o755)
		}
	},
	"a state directory with a file of the user's": func(_ testing.TB, s stage) {
		s.file("opt/socket_vmnet/share/socket_vmnet2/notes.txt", "mine", 0o644)
	},
}

// assertInstalled looks whether everything is there, and nothing else has changed.
func assertInstalled(t *testing.T, s stage, before tree, from string) {
	t.Helper()
	for _, target := range targets {
		f, err := look(s.path("opt/socket_vmnet/" + target))
		require.NoError(t, err)
		want, err := look(filepath.Join(from, filepath.Base(target)))
		require.NoError(t, err)
		assert.True(t, f.same(want), "%s is a real file, whatever was there", target)
		assert.Equal(t, fs.FileMode(0o755), f.mode)
		assert.Equal(t, os.Geteuid(), f.uid)
	}
	after := s.tree().timeless()
	for path, line := range before.timeless() {
		rel := strings.TrimPrefix(path, "/opt/socket_vmnet/")
		if !slices.Contains(targets, rel) {
			assert.Equal(t, line, after[path], "%s is none of ours", path)
		}
	}
	for path := range after {
		assert.NotContains(t, path, "socket_vmnet2-new", "only an interruption may leave that")
	}
}

// says is what a command prints, which must not fail.
func says(t *testing.T, do func(context.Context, Options) error, o Options) string {
	t.Helper()
	var out strings.Builder
	o.Out = &out
	require.NoError(t, do(t.Context(), o))
	return strings.Replace(out.String(), ", if it were not a dry run", "", 1)
}

func install(t *testing.T, o Options) string  { t.Helper(); return says(t, Install, o) }
func rollback(t *testing.T, o Options) string { t.Helper(); return says(t, Rollback, o) }

// now begins what to do after a change.
const now = "\nNow\n"

func TestInstallAndRollback(t *testing.T) {
	for name, make := range befores {
		t.Run(name, func(t *testing.T) {
			s, from := newStage(t), sourceOf(t, "v1.0")
			make(t, s)
			before := s.tree()
			dry := s.options(from)
			dry.DryRun = true
			r := install(t, dry)
			assert.Contains(t, r, now)
			assert.Equal(t, before, s.tree(), "a dry run changes nothing")

			assert.Equal(t, r, install(t, s.options(from)), "a dry run says the same")
			assertInstalled(t, s, before, from)
			out, err := exec.Command(s.path("opt/socket_vmnet/bin/socket_vmnet"), "--version").Output()
			require.NoError(t, err)
			assert.Equal(t, "v1.0\n", string(out))

			installed := s.tree()
			assert.NotContains(t, install(t, s.options(from)), now)
			assert.Equal(t, installed, s.tree(), "twice is once")

			r = rollback(t, dry)
			assert.Equal(t, installed, s.tree(), "a dry run changes nothing")
			assert.Equal(t, r, rollback(t, s.options("")), "a dry run says the same")
			assert.Equal(t, before, s.tree())

			r = rollback(t, s.options(""))
			assert.NotContains(t, r, now)
			assert.Contains(t, r, "There is no backup in /opt/socket_vmnet/share/socket_vmnet2")
			assert.Equal(t, before, s.tree())
		})
	}
}

// Whatever the umask is, no other user can write to what is made, and all can run it.
func TestUmask(t *testing.T) {
	for _, mask := range []int{0o077, 0} {
		s, from := newStage(t), sourceOf(t, "v1.0")
		old := syscall.Umask(mask)
		install(t, s.options(from))
		syscall.Umask(old)
		for path, line := range s.tree() {
			if path != "" && !strings.Contains(path, stateDir) {
				assert.Contains(t, line, "rwxr-xr-x", path)
			}
		}
	}
}

// The first backup stays when a newer version of ours is installed, however it comes there.
func TestUpdate(t *testing.T) {
	s := newStage(t)
	s.socketVMNet("v1.2.2")
	before := s.tree()
	install(t, s.options(sourceOf(t, "v1.0")))
	from := sourceOf(t, "v1.1")
	r := install(t, s.options(from))
	assert.Contains(t, r, "replaced by v1.1; the backup stays as it is")
	assert.Contains(t, r, "bin/socket_vmnet2 upgrade SOCKET")
	assertInstalled(t, s, before, from)
	install(t, s.options(sourceOf(t, "v1.0"))) // and back
	program, err := os.Executable()            // built from sources of this project, as it says itself
	require.NoError(t, err)
	b, err := os.ReadFile(program)
	require.NoError(t, err)
	s.file("opt/socket_vmnet/bin/socket_vmnet", string(b), 0o755)
	s.file("opt/socket_vmnet/bin/socket_vmnet2", string(b), 0o755)
	rollback(t, s.options(""))
	assert.Equal(t, before, s.tree())
}

// socket_vmnet is installed again over ours.
func TestForeign(t *testing.T) {
	again := func(t *testing.T) (stage, tree) {
		s := newStage(t)
		s.socketVMNet("v1.2.2")
		install(t, s.options(sourceOf(t, "v1.0")))
		s.socketVMNet("v1.3.0")
		// What upstream's own rollback would have to find: everything as v1.3.0 would be without ours.
		clean := newStage(t)
		clean.socketVMNet("v1.3.0")
		return s, clean.tree().timeless()
	}
	t.Run("rolled back", func(t *testing.T) {
		s, want := again(t)
		r := rollback(t, s.options(""))
		assert.Contains(t, r, "bin/socket_vmnet         left alone: another one has been put there since, and the older one in the backup is given up")
		assert.Equal(t, want, s.tree().timeless())
	})
	t.Run("installed again, and rolled back", func(t *testing.T) {
		s, want := again(t)
		from := sourceOf(t, "v1.0")
		r := install(t, s.options(from))
		assert.Contains(t, r, "another one has been put there since, which takes the place of the older one in the backup")
		assertInstalled(t, s, s.tree(), from)
		rollback(t, s.options(""))
		assert.Equal(t, want, s.tree().timeless())
	})
	t.Run("removed", func(t *testing.T) { // by "make uninstall.bin"
		s := newStage(t)
		s.socketVMNet("v1.2.2")
		before := s.tree()
		install(t, s.options(sourceOf(t, "v1.0")))
		require.NoError(t, os.RemoveAll(s.path("opt/socket_vmnet/bin")))
		rollback(t, s.options(""))
		assert.Equal(t, before.timeless(), s.tree().timeless())
	})
	t.Run("other files", func(t *testing.T) {
		s := newStage(t)
		install(t, s.options(sourceOf(t, "v1.0")))
		s.file("opt/socket_vmnet/bin/mine", "mine", 0o700)
		rollback(t, s.options(""))
		assert.FileExists(t, s.path("opt/socket_vmnet/bin/mine"))
		assert.NoDirExists(t, s.path("opt/socket_vmnet/share"))
		assert.NoDirExists(t, s.path("opt/socket_vmnet/libexec"))
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

// built is the directory of a program that tests of services have built.
var built string

// obstacle is a directory that cannot be removed where a file is made.
func (s stage) obstacle(path string) (remove func()) {
	at := tempName(s.path("opt/socket_vmnet/" + path))
	require.NoError(s.t, os.MkdirAll(at+"/x", 0o755))
	return func() { require.NoError(s.t, os.RemoveAll(at)) }
}

// Whatever fails, and wherever: once it is put right the same again, or the other command, does all of it.
func TestFailures(t *testing.T) {
	for name, prepare := range befores {
		for _, fails := range targets {
			for _, next := range []string{"install", "rollback"} {
				t.Run(name+"/"+fails+"/"+next, func(t *testing.T) {
					s, from := newStage(t), sourceOf(t, "v1.0")
					prepare(t, s)
					for _, dir := range []string{"bin", "libexec"} {
						require.NoError(t, os.MkdirAll(s.path("opt/socket_vmnet/"+dir), 0o755))
					}
					before := s.tree()
					remove := s.obstacle(fails)
					err := Install(t.Context(), s.options(from))
					if err == nil { // that one was there already
						remove()
						return
					}
					assert.Contains(t, err.Error(), "not everything is installed; do the same again once that is put right, or roll back with "+
						"/opt/socket_vmnet/share/socket_vmnet2/backup/socket_vmnet2 rollback --prefix=/opt/socket_vmnet")
					remove()
					if next == "install" {
						install(t, s.options(from))
						assertInstalled(t, s, before, from)
					}
					rollback(t, s.options(""))
					assert.Equal(t, before.timeless(), s.tree().timeless())
				})
			}
		}
	}
}

// A backup that cannot be made is no reason to change anything.
func TestNothingChanged(t *testing.T) {
	s, from := newStage(t), sourceOf(t, "v1.0")
	s.socketVMNet("v1.2.2")
	before := s.tree()
	p, err := s.options(from).place()
	require.NoError(t, err)
	source, err := findSource(t.Context(), from, false)
	require.NoError(t, err)
	m, err := p.plan(nil, source)
	require.NoError(t, err)
	require.NoError(t, os.Rename(s.path("opt/socket_vmnet/bin/socket_vmnet"), s.path("away"))) // meanwhile
	require.ErrorContains(t, p.put(m, source), "no such file or directory: nothing was changed")
	require.NoError(t, os.Rename(s.path("away"), s.path("opt/socket_vmnet/bin/socket_vmnet")))
	assert.Equal(t, before, s.tree())
}

// What an interruption leaves before there is a manifest, and after the manifest is gone, is removed.
func TestLeftovers(t *testing.T) {
	s, from := newStage(t), sourceOf(t, "v1.0")
	s.socketVMNet("v1.2.2")
	before := s.tree()
	install(t, s.options(from))
	require.NoError(t, os.Remove(s.path("opt/socket_vmnet/"+manifestFile)))
	s.socketVMNet("v1.2.2")
	require.NoError(t, os.RemoveAll(s.path("opt/socket_vmnet/libexec")))
	require.NoError(t, os.Remove(s.path("opt/socket_vmnet/bin/socket_vmnet2")))
	install(t, s.options(from))
	rollback(t, s.options(""))
	assert.NoFileExists(t, s.path("opt/socket_vmnet/"+backupDir))
	s.file("opt/socket_vmnet/"+ownCopy, "x", 0o755)
	rollback(t, s.options(""))
	assert.Equal(t, before.timeless(), s.tree().timeless())
}

// A rollback that was interrupted is ended by the next one, or by an installation and the one after that.
func TestRollbackInterrupted(t *testing.T) {
	for n := range targets {
		for _, again := range []bool{false, true} {
			s, from := newStage(t), sourceOf(t, "v1.0")
			befores["links"](t, s)
			before := s.tree()
			install(t, s.options(from))
			p, err := s.options("").place()
			require.NoError(t, err)
			m, err := p.readManifest()
			require.NoError(t, err)
			for _, e := range m.Entries[:n+1] {
				require.NoError(t, p.restore(e))
			}
			if n == len(targets)-1 {
				require.NoError(t, os.RemoveAll(p.at(filesDir)))
			}
			if again {
				install(t, s.options(from))
				assertInstalled(t, s, before, from)
			}
			rollback(t, s.options(""))
			assert.Equal(t, before, s.tree())
		}
	}
}
