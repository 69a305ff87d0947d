// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// stage makes a root with /opt/socket_vmnet/bin/socket_vmnet in it.
func stage(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "a root")
	require.NoError(t, os.MkdirAll(filepath.Join(root, program), 0o755))
	require.NoError(t, os.Remove(filepath.Join(root, program)))
	require.NoError(t, os.WriteFile(filepath.Join(root, program), nil, 0o755))
	for p := filepath.Join(root, program); p != filepath.Dir(root); p = filepath.Dir(p) {
		require.NoError(t, os.Chmod(p, 0o755), "whatever the umask")
	}
	return root
}

const program = "/opt/socket_vmnet/bin/socket_vmnet"

func TestCheck(t *testing.T) {
	tests := []struct {
		name    string
		path    string // program
		change  func(t *testing.T, root string)
		options Options
		at      string // the component, empty for no fault
		problem string
		fix     string
	}{
		{name: "as installed"},
		{name: "the root itself", path: "/"},
		{name: "not there", path: "/opt/other/bin/x", at: "/opt/other", problem: "does not exist"},
		{name: "not there yet", path: "/opt/other/bin/x", options: Options{Missing: true}},
		{name: "not there yet, below an open directory", path: "/opt/other/bin/x", change: mode("opt", 0o777), options: Options{Missing: true}, at: "/opt", problem: "can be written by everybody (mode 0777)"},
		{name: "relative", path: "opt/x", at: "opt/x", problem: "is not absolute"},
		{name: "empty", path: "-", at: `""`, problem: "is not a path"},
		{name: "dots", path: "/opt/../opt", at: "/opt/../opt", problem: "is not in its shortest form", fix: "name it as /opt"},
		{name: "line feed", path: "/opt/a\nb", at: `"/opt/a\nb"`, problem: "contains a character that paths do not have"},
		{name: "space", path: "/opt/a b", at: "/opt/a b", problem: "contains a space, which Lima does not take"},
		{name: "space allowed", path: "/opt/a b", options: Options{AllowSpace: true, Missing: true}},
		{name: "directory open to everybody", change: mode("opt/socket_vmnet", 0o757), at: "/opt/socket_vmnet", problem: "can be written by everybody (mode 0757)", fix: "sudo chmod o-w 'ROOT/opt/socket_vmnet'"},
		{name: "program open to everybody", change: mode(program, 0o757), at: program, problem: "can be written by everybody (mode 0757)"},
		{name: "sticky is no excuse", change: mode("opt", 0o777|os.ModeSticky), at: "/opt", problem: "can be written by everybody (mode 0777)"},
		{name: "root open to everybody", change: mode("", 0o777), at: "/", problem: "can be written by everybody (mode 0777)"},
		{name: "own group of the stage", change: mode("opt", 0o775)},
		{name: "link", change: link("opt/socket_vmnet/bin"), at: "/opt/socket_vmnet/bin", problem: "is a symbolic link to elsewhere", fix: "name the path it leads to"},
		{name: "program a link", change: link(program), at: program, problem: "is a symbolic link to elsewhere"},
		{name: "dangling link where nothing is yet", path: "/opt/new", change: link("opt/new"), options: Options{Missing: true}, at: "/opt/new", problem: "is a symbolic link to elsewhere"},
		{name: "file for a directory", path: program + "/x", at: program, problem: "is not a directory"},
		{name: "no such root", options: Options{Root: "/nonexistent/root"}, at: "/nonexistent/root", problem: "cannot be the root: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := stage(t)
			if tt.change != nil {
				tt.change(t, root)
			}
			if tt.options.Root == "" {
				tt.options.Root = root
			}
			path := tt.path
			switch path {
			case "":
				path = program
			case "-":
				path = ""
			}
			err := Check(path, tt.options)
			if tt.at == "" {
				assert.NoError(t, err)
				return
			}
			e := &Error{}
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.at, e.Component)
			assert.Equal(t, tt.problem, e.Problem)
			assert.Contains(t, err.Error(), tt.at+" "+tt.problem)
			if tt.fix != "" {
				fix := strings.ReplaceAll(tt.fix, "ROOT", root)
				assert.Equal(t, fix, e.Fix)
				assert.Contains(t, err.Error(), "; "+fix)
			}
		})
	}
}

// mode changes the mode of a path in the stage.
func mode(path string, m os.FileMode) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		require.NoError(t, os.Chmod(filepath.Join(root, path), m))
	}
}

// link replaces a path in the stage by a link that leads nowhere.
func link(path string) func(*testing.T, string) {
	return func(t *testing.T, root string) {
		t.Helper()
		p := filepath.Join(root, path)
		require.NoError(t, os.RemoveAll(p))
		require.NoError(t, os.Symlink("elsewhere", p))
	}
}

// TestStagedOwners needs no change of owners: it says who is trusted.
func TestStagedOwners(t *testing.T) {
	stage := Node{UID: 501, GID: 20}
	dir := func(uid, gid, mode uint32) Node { return Node{UID: uid, GID: gid, Mode: unix.S_IFDIR | mode} }
	assert.Nil(t, fault(dir(501, 20, 0o775), stage, "", false, false), "the stage's owner")
	assert.Nil(t, fault(dir(0, 0, 0o775), stage, "", false, false), "root")
	for want, n := range map[string]Node{
		"can be written by group 21 (mode 0775)": dir(501, 21, 0o775), "belongs to user 502, not to root": dir(502, 20, 0o755),
	} {
		e := fault(n, stage, "", false, false)
		require.NotNil(t, e)
		assert.Equal(t, want, e.Problem)
	}
	require.NotNil(t, fault(dir(501, 20, 0o755), Node{}, "", false, false), "an ordinary user's, and no stage")
}

// TestForeignOwner gives directories to others.
func TestForeignOwner(t *testing.T) {
	vnettest.NeedRoot(t)
	root := stage(t)
	opt := filepath.Join(root, "opt")
	require.NoError(t, os.Chown(opt, 65534, 0))
	err := Check(program, Options{Root: root})
	require.EqualError(t, err, program+" is not safe: /opt belongs to user 65534, not to root; sudo chown root '"+opt+"'")
	require.NoError(t, os.Chown(opt, 0, 65534))
	require.NoError(t, Check(program, Options{Root: root}), "the group may not write")
	require.NoError(t, os.Chmod(opt, 0o775))
	require.ErrorContains(t, Check(program, Options{Root: root}), "/opt can be written by group 65534 (mode 0775); sudo chmod g-w '"+opt+"'")
	require.NoError(t, os.Chown(opt, 0, daemonGID))
	require.ErrorContains(t, Check(program, Options{Root: root}), "group 1")
	require.NoError(t, Check(program, Options{Root: root, AllowDaemonGroup: true}))
}

// TestRealRoot looks at this machine: its shell is root's alone.
func TestRealRoot(t *testing.T) {
	require.NoError(t, Check("/", Options{}))
	require.ErrorContains(t, Check("/tmp/x", Options{Missing: true}), "is not safe")
}

// TestOwners is whose files a daemon of root and one of a user trust; the rest is in TestFind of upgrade and
// TestUntrustedDirectory of state.
func TestOwners(t *testing.T) {
	me := os.Geteuid()
	path := t.TempDir() + "/p"
	require.NoError(t, os.WriteFile(path, nil, 0o755))
	for _, c := range []struct {
		name  string
		euid  int
		mode  os.FileMode
		trust bool
	}{
		{"ours", me, 0o755, true},
		{"another user's", me + 1, 0o755, me == 0},
		{"written by a group of root's daemon", 0, 0o775, false},
		{"written by a group of a user's daemon", 1000, 0o775, me == 0 || me == 1000},
		{"written by all", 1000, 0o757, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, os.Chmod(path, c.mode))
			info, err := os.Lstat(path)
			require.NoError(t, err)
			w := walk{euid: c.euid}
			err = w.trust(path, info)
			if c.trust {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, err, new(*Untrusted))
			}
		})
	}
}
