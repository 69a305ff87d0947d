// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is wrong is said before anything is changed.
func TestRefusals(t *testing.T) {
	const prefix = "opt/socket_vmnet/"
	for name, test := range map[string]struct {
		prepare func(s stage, from string, o *Options) error
		want    string
	}{
		"all users may write to bin": {
			func(s stage, _ string, _ *Options) error { return os.Chmod(s.path(prefix+"bin"), 0o777) },
			"/opt/socket_vmnet/bin can be written by everybody (mode 0777)",
		},
		"bin is a link": {
			func(s stage, _ string, _ *Options) error {
				return errors.Join(os.Rename(s.path(prefix+"bin"), s.path("bin")), os.Symlink("../../bin", s.path(prefix+"bin")))
			},
			"/opt/socket_vmnet/bin is a symbolic link to ../../bin",
		},
		"libexec is a file": {
			func(s stage, _ string, _ *Options) error { return os.WriteFile(s.path(prefix+"libexec"), nil, 0o600) },
			"/opt/socket_vmnet/libexec/vmnet-helper: not a directory",
		},
		"a directory in the place of a program": {
			func(s stage, _ string, _ *Options) error { return os.Mkdir(s.path(prefix+"bin/socket_vmnet2"), 0o755) },
			"bin/socket_vmnet2 is a directory where a program belongs; move it away",
		},
		"a pipe in the place of a program": {
			func(s stage, _ string, _ *Options) error {
				return syscall.Mkfifo(s.path(prefix+"bin/socket_vmnet2"), 0o600)
			},
			"bin/socket_vmnet2 is neither a file nor a link",
		},
		"a way out of the root": {
			func(_ stage, _ string, o *Options) error { o.Prefix = "/../.."; return nil }, "--prefix=/ would mix everything",
		},
		"no such root": {func(_ stage, _ string, o *Options) error { o.Root += "/none"; return nil }, "/none cannot be the root"},
		"a program is missing": {
			func(_ stage, from string, _ *Options) error { return os.Remove(filepath.Join(from, "vmnet-helper")) },
			"has neither libexec/vmnet-helper nor vmnet-helper: name a directory that has all programs with --from",
		},
		"a program is empty": {
			func(_ stage, from string, _ *Options) error {
				return os.Truncate(filepath.Join(from, "vmnet-helper"), 0)
			},
			"vmnet-helper is empty: a build or an installation was interrupted",
		},
		"socket_vmnet's own programs": {
			func(_ stage, from string, _ *Options) error {
				return os.WriteFile(filepath.Join(from, "socket_vmnet"), []byte("other"), 0o755)
			},
			"differ, but are one program under two names",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, from := newStage(t), sourceOf(t, "v1.0")
			s.socketVMNet("v1.2.2")
			o := s.options(from)
			require.NoError(t, test.prepare(s, from, &o))
			before := s.tree()
			require.ErrorContains(t, Install(t.Context(), o), test.want)
			assert.Equal(t, before, s.tree())
		})
	}
}

// A backup that is not what it was is no backup.
func TestBadBackup(t *testing.T) {
	manifest := strings.TrimPrefix(manifestFile, backupDir+"/")
	for name, test := range map[string]struct {
		file, text string // in the backup; no text: the file is removed
		rollback   string // what is wrong for it
		install    string // empty: nothing is for an installation
	}{
		"changed":                           {"files/bin/socket_vmnet", "x", "files/bin/socket_vmnet is not what was backed up (file, sha256 ", ""},
		"removed":                           {"files", "", "it was changed or removed since; nothing was changed now", ""},
		"no manifest":                       {manifest, "", "is the only copy of what was at", "the manifest beside it is missing: put it back, or move it away"},
		"manifest of half":                  {manifest, `{"format": 1, "entries": [`, "manifest.json is damaged", "manifest.json is damaged"},
		"manifest of a newer one":           {manifest, `{"format": 3, "version": "v3.0"}`, "of a newer socket_vmnet2 (v3.0); use that one", "of a newer socket_vmnet2"},
		"manifest with other paths":         {manifest, `{"format": 1, "entries": [{"path": "../../a"}]}`, `names "../../a", which is none of ours`, `names "../../a"`},
		"manifest with nothing in an entry": {manifest, `{"format": 1, "entries": [null]}`, "damaged", "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.socketVMNet("v1.2.2")
			install(t, s.options(sourceOf(t, "v1.0")))
			damaged := "opt/socket_vmnet/" + backupDir + "/" + test.file
			require.NoError(t, os.RemoveAll(s.path(damaged)))
			if test.text != "" {
				s.file(damaged, test.text, 0o644)
			}
			before := s.tree()
			err := Rollback(t.Context(), s.options(""))
			require.ErrorContains(t, err, test.rollback)
			assert.Equal(t, before, s.tree())
			if test.install == "" {
				assert.Contains(t, install(t, s.options(sourceOf(t, "v1.1"))), now)
				return
			}
			err = Install(t.Context(), s.options(sourceOf(t, "v1.1")))
			require.ErrorContains(t, err, test.install)
			assert.Equal(t, before, s.tree())
		})
	}
}

func TestTwoAtOnce(t *testing.T) {
	s, from := newStage(t), sourceOf(t, "v1.0")
	_, lock, err := s.options(from).begin() // another one is in the middle
	require.NoError(t, err)
	err1, err2 := Install(t.Context(), s.options(from)), Rollback(t.Context(), s.options(from))
	for _, err := range []error{err1, err2} {
		require.EqualError(t, err, "another install or rollback is at work: try again when it has ended")
	}
	require.NoError(t, lock.Close())
	install(t, s.options(from))
}

// The programs for this machine must run on it.
func TestDoesNotRun(t *testing.T) {
	from := sourceOf(t, "v1.0")
	require.NoError(t, os.WriteFile(filepath.Join(from, "socket_vmnet2"), []byte("\x7fELF no program"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "socket_vmnet"), []byte("\x7fELF no program"), 0o755))
	_, err := findSource(t.Context(), from, true)
	require.ErrorContains(t, err, "socket_vmnet2 does not run here, so it is of no use")
	s, err := findSource(t.Context(), from, false)
	require.NoError(t, err, "those for a staged root need not")
	assert.Equal(t, "socket_vmnet2", s.version)
}

// Without --from the programs are taken from where this one is.
func TestSourceInPrefix(t *testing.T) {
	from := sourceOf(t, "v1.0")
	dir := t.TempDir()
	for _, target := range targets {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(target)), 0o755))
		require.NoError(t, os.Rename(filepath.Join(from, filepath.Base(target)), filepath.Join(dir, target)))
	}
	s, err := findSource(t.Context(), dir, true)
	require.NoError(t, err)
	assert.Equal(t, "v1.0", s.version)
	_, err = findSource(t.Context(), "", true)
	require.ErrorContains(t, err, "has neither libexec/vmnet-helper nor vmnet-helper", "the program of this test is alone")
}

// Only root changes the real prefix.
func TestNotRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		return
	}
	_, err := Options{}.place()
	require.Error(t, err)
	if !strings.Contains(err.Error(), "is not safe") { // on a machine with a prefix of the user's
		assert.EqualError(t, err, "only root can change /opt/socket_vmnet: use sudo")
	}
}
