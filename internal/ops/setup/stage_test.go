// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

// prog is a program that tells its version.
func prog(name, version string) string {
	return fmt.Sprintf("#!/bin/sh\n# %s\necho %s\n", name, version)
}

// sourceOf makes the programs of a version, all in one directory as make does.
func sourceOf(t testing.TB, version string) string {
	t.Helper()
	dir := t.TempDir()
	for _, target := range targets {
		name := filepath.Base(target)
		content := prog(name, version)
		if name == "socket_vmnet" {
			content = prog("socket_vmnet2", version)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755))
	}
	return dir
}

// A stage is a root directory to try things in.
type stage struct {
	t    testing.TB
	root string
}

func newStage(t testing.TB) stage {
	t.Helper()
	return stage{t, t.TempDir()}
}

func (s stage) path(rel string) string { return filepath.Join(s.root, rel) }

// oldTime is of files that were there, to the nanosecond.
var oldTime = time.Date(2021, 3, 4, 5, 6, 7, 123456789, time.UTC)

// file makes a file that was there.
func (s stage) file(rel, content string, mode fs.FileMode) {
	s.t.Helper()
	path := s.path(rel)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.t, os.RemoveAll(path))
	require.NoError(s.t, os.WriteFile(path, []byte(content), 0o600))
	if os.Geteuid() == 0 {
		require.NoError(s.t, os.Chown(path, 501, 80))
	}
	require.NoError(s.t, os.Chmod(path, mode))
	require.NoError(s.t, os.Chtimes(path, oldTime, oldTime))
}

// link makes a symbolic link that was there.
func (s stage) link(rel, target string) {
	s.t.Helper()
	path := s.path(rel)
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.t, os.RemoveAll(path))
	require.NoError(s.t, os.Symlink(target, path))
	if os.Geteuid() == 0 {
		require.NoError(s.t, os.Lchown(path, 502, 20))
	}
}

// socketVMNet is what upstream's "make BRIDGED=en0 install" writes, and Lima's files about it.
func (s stage) socketVMNet(version string) {
	s.t.Helper()
	const prefix = "opt/socket_vmnet/"
	s.file(prefix+"bin/socket_vmnet", "socket_vmnet "+version, 0o755)
	s.file(prefix+"bin/socket_vmnet_client", "client "+version, 0o755)
	s.file(prefix+"share/doc/socket_vmnet/README.md", "# socket_vmnet", 0o644)
	s.file(prefix+"share/doc/socket_vmnet/LICENSE", "Apache", 0o644)
	s.file(prefix+"share/doc/socket_vmnet/launchd/io.github.lima-vm.socket_vmnet.plist", "<plist>", 0o644)
	s.file(prefix+"share/doc/socket_vmnet/etc_sudoers.d/socket_vmnet", "%staff", 0o644)
	for _, label := range []string{"io.github.lima-vm.socket_vmnet", "io.github.lima-vm.socket_vmnet.bridged.en0"} {
		s.file("Library/LaunchDaemons/"+label+".plist", "<key>Label</key>\n\t<string>"+label+
			"</string>\n<string>/opt/socket_vmnet/bin/socket_vmnet</string>", 0o644)
	}
	s.file("private/etc/sudoers.d/lima", "%admin ALL=(root:wheel) NOPASSWD:NOSETENV: /opt/socket_vmnet/bin/socket_vmnet", 0o440)
	s.file("Users/u/.lima/_config/networks.yaml", "paths:\n  socketVMNet: /opt/socket_vmnet/bin/socket_vmnet\n", 0o644)
}

// options are for this stage.
func (s stage) options(from string) Options {
	return Options{Root: s.root, From: from, Out: io.Discard}
}

// A tree is what is below a root: a line for each path.
type tree map[string]string

// tree looks at everything. A file is the same one only: it may be known under other names, too, and a daemon may run from it.
func (s stage) tree() tree {
	s.t.Helper()
	all := tree{}
	require.NoError(s.t, filepath.WalkDir(s.root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(path, s.root)
		fi, err := os.Lstat(path)
		if err != nil {
			return err
		}
		uid, gid := find.Owner(fi)
		line := fmt.Sprintf("%v %d:%d", fi.Mode(), uid, gid)
		switch fi.Mode().Type() {
		case 0:
			b, err := os.ReadFile(path)
			require.NoError(s.t, err)
			line += fmt.Sprintf(" %d %x file %d", fi.ModTime().UnixNano(), sha256.Sum256(b), fi.Sys().(*syscall.Stat_t).Ino)
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			require.NoError(s.t, err)
			line += fmt.Sprintf(" %d -> %s", fi.ModTime().UnixNano(), target)
		}
		all[rel] = line
		return nil
	}))
	return all
}

// timeless is a tree without the times of what is new in every installation, and without which file it is.
func (t tree) timeless() tree {
	t = maps.Clone(t)
	for path, line := range t {
		line, _, _ = strings.Cut(line, " file ")
		t[path] = line
		f := strings.Fields(line)
		switch {
		case strings.HasSuffix(path, manifestFile):
			t[path] = strings.Join(f[:2], " ") // times and versions
		case slices.Contains(targets, strings.TrimPrefix(path, "/opt/socket_vmnet/")) && len(f) == 4 && f[2] > "1700000000000000000",
			strings.HasSuffix(path, ownCopy):
			t[path] = strings.Join(append(f[:2], f[3]), " ")
		}
	}
	return t
}
