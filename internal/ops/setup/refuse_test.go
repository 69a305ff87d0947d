// SPDX-License-Identifier: Apache-2.0

package setup

import (
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
	for name, test := range map[string]struct {
		prepare func(t *testing.T, s stage, from string, o *Options)
		want    []string
	}{
		"all users may write to bin": {
			func(t *testing.T, s stage, _ string, _ *Options) {
				require.NoError(t, os.Chmod(s.path("opt/socket_vmnet/bin"), 0o777))
			},
			[]string{"/opt/socket_vmnet/bin can be written by everybody (mode 0777)"},
		},
		"bin is a link": {
			func(t *testing.T, s stage, _ string, _ *Options) {
				require.NoError(t, os.Rename(s.path("opt/socket_vmnet/bin"), s.path("bin")))
				require.NoError(t, os.Symlink("../../bin", s.path("opt/socket_vmnet/bin")))
			},
			[]string{"/opt/socket_vmnet/bin is a symbolic link to ../../bin"},
		},
		"libexec is a file": {
			func(t *testing.T, s stage, _ string, _ *Options) {
				require.NoError(t, os.WriteFile(s.path("opt/socket_vmnet/libexec"), nil, 0o600))
			},
			[]string{"/opt/socket_vmnet/libexec", "not a directory"},
		},
		"a directory in the place of a program": {
			func(t *testing.T, s stage, _ string, _ *Options) {
				require.NoError(t, os.Mkdir(s.path("opt/socket_vmnet/bin/socket_vmnet2"), 0o755))
			},
			[]string{"bin/socket_vmnet2 is a directory where a program belongs; move it away"},
		},
		"a pipe in the place of a program": {
			func(t *testing.T, s stage, _ string, _ *Options) {
				require.NoError(t, syscall.Mkfifo(s.path("opt/socket_vmnet/bin/socket_vmnet2"), 0o600))
			},
			[]string{"bin/socket_vmnet2 is neither a file nor a link"},
		},
		"a way out of the root": {
			func(_ *testing.T, _ stage, _ string, o *Options) { o.Prefix = "/../.." },
			[]string{"--prefix=/ would mix everything"},
		},
		"no such root": {
			func(_ *testing.T, _ stage, _ string, o *Options) { o.Root += "/none" },
			[]string{"/none cannot be the root"},
		},
		"a program is missing": {
			func(t *testing.T, _ stage, from string, _ *Options) {
				require.NoError(t, os.Remove(filepath.Join(from, "vmnet-helper")))
			},
			[]string{"has neither libexec/vmnet-helper nor vmnet-helper: name a directory that has all programs with --from"},
		},
		"a program is empty": {
			func(t *testing.T, _ stage, from string, _ *Options) {
				require.NoError(t, os.Truncate(filepath.Join(from, "vmnet-helper"), 0))
			},
			[]string{"vmnet-helper is empty: a build or an installation was interrupted"},
		},
		"socket_vmnet's own programs": {
			func(t *testing.T, _ stage, from string, _ *Options) {
				require.NoError(t, os.WriteFile(filepath.Join(from, "socket_vmnet"), []byte("other"), 0o755))
			},
			[]string{"differ, but are one program under two names"},
		},
		"no such directory to take them from": {
			func(_ *testing.T, _ stage, _ string, o *Options) { o.From += "/none" },
			[]string{"/none has neither"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, from := newStage(t), sourceOf(t, "v1.0")
			s.socketVMNet("v1.2.2")
			o := s.options(from)
			test.prepare(t, s, from, &o)
			before := s.tree()
			err := Install(t.Context(), o)
			require.Error(t, err)
			for _, want := range test.want {
				assert.Contains(t, err.Error(), want)
			}
			assert.Equal(t, before, s.tree())
		})
	}
}

// A backup that is not what it was is no backup.
func TestBadBackup(t *testing.T) {
	const backup = "opt/socket_vmnet/" + backupDir + "/"
	for name, test := range map[string]struct {
		damage   func(t *testing.T, s stage)
		rollback string
		install  string
	}{
		"changed": {
			func(_ *testing.T, s stage) { s.file(backup+"files/bin/socket_vmnet", "x", 0o755) },
			"files/bin/socket_vmnet is not what was backed up (file, sha256 ", "",
		},
		"removed": {
			func(t *testing.T, s stage) { require.NoError(t, os.RemoveAll(s.path(backup+"files"))) },
			"it was changed or removed since; nothing was changed now", "",
		},
		"no manifest": {
			func(t *testing.T, s stage) { require.NoError(t, os.Remove(s.path("opt/socket_vmnet/"+manifestFile))) },
			"is the only copy of what was at", "the manifest beside it is missing: put it back, or move it away",
		},
		"manifest of half": {
			func(_ *testing.T, s stage) {
				s.file("opt/socket_vmnet/"+manifestFile, `{"format": 1, "entries": [`, 0o644)
			},
			"manifest.json is damaged", "manifest.json is damaged",
		},
		"manifest of a newer one": {
			func(_ *testing.T, s stage) {
				s.file("opt/socket_vmnet/"+manifestFile, `{"format": 3, "version": "v3.0"}`, 0o644)
			},
			"manifest.json is of a newer socket_vmnet2 (v3.0); use that one", "is of a newer socket_vmnet2",
		},
		"manifest with other paths": {
			func(_ *testing.T, s stage) {
				s.file("opt/socket_vmnet/"+manifestFile, `{"format": 1, "entries": [{"path": "../../etc/passwd", "before": {"kind": "absent"}}]}`, 0o644)
			},
			`names "../../etc/passwd", which is none of ours`, `names "../../etc/passwd"`,
		},
		"manifest with nothing in an entry": {
			func(_ *testing.T, s stage) {
				s.file("opt/socket_vmnet/"+manifestFile, `{"format": 1, "entries": [null]}`, 0o644)
			},
			"damaged", "damaged",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.socketVMNet("v1.2.2")
			install(t, s.options(sourceOf(t, "v1.0")))
			test.damage(t, s)
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
	o := Options{Prefix: "/opt/socket_vmnet"}
	if os.Geteuid() == 0 {
		o.Root = "/" // is the same as none
		o.DryRun = true
		p, err := o.place()
		if err == nil {
			assert.Empty(t, p.root)
		}
		return
	}
	_, err := o.place()
	require.Error(t, err)
	if !strings.Contains(err.Error(), "is not safe") { // on a machine with a prefix of the user's
		assert.EqualError(t, err, "only root can change /opt/socket_vmnet: use sudo")
	}
}
