// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFind is what a path may look like. The cases make it below a directory of their own.
func TestFind(t *testing.T) {
	file := func(path string, mode uint32) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o700), unix.Chmod(path, mode))
	}
	link := func(target, path string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path))
	}
	mode := func(path string, mode uint32) error { return unix.Chmod(path, mode) }
	for _, c := range []struct {
		name string
		make func(dir string) error
		path string
		want string // resolved, empty if it is refused
		code code
		text string // of the refusal
	}{
		{"plain", func(d string) error { return file(d+"/bin/p", 0o755) }, "/bin/p", "/bin/p", "", ""},
		{"link to it", func(d string) error {
			return errors.Join(file(d+"/v2/p", 0o755), link("../v2/p", d+"/bin/p"))
		}, "/bin/p", "/v2/p", "", ""},
		{"absolute link to a directory", func(d string) error {
			return errors.Join(file(d+"/v2/p", 0o755), link(d+"/v2", d+"/bin"))
		}, "/bin/p", "/v2/p", "", ""},
		{"directory of ours in a sticky one", func(d string) error {
			return errors.Join(file(d+"/tmp/own/p", 0o755), mode(d+"/tmp", 0o1777))
		}, "/tmp/own/p", "/tmp/own/p", "", ""},
		{"Cellar", func(d string) error {
			return errors.Join(file(d+"/Cellar/x/2/bin/p", 0o755), link("../Cellar/x/2", d+"/opt/x"))
		}, "/Cellar/x/1/bin/p", "/Cellar/x/2/bin/p", "", ""},
		{"Cellar without opt", func(d string) error { return file(d+"/Cellar/x/1/bin/p", 0o755) }, "/Cellar/x/1/bin/p", "/Cellar/x/1/bin/p", "", ""},

		{"nothing there", func(string) error { return nil }, "/bin/p", "", codeUnusable, "/bin: no such file or directory"},
		{"dangling link", func(d string) error { return link("nothing", d+"/bin/p") }, "/bin/p", "", codeUnusable, "/bin/nothing: no such file"},
		{"links in a circle", func(d string) error { return link("p", d+"/bin/p") }, "/bin/p", "", codeUnusable, "too many levels of symbolic links"},
		{"below a file", func(d string) error { return file(d+"/bin", 0o755) }, "/bin/p", "", codeUnusable, "not a directory"},
		{"fifo", func(d string) error { return unix.Mkfifo(d+"/p", 0o755) }, "/p", "", codeUnusable, "not a regular file"},
		{"not executable", func(d string) error { return file(d+"/p", 0o644) }, "/p", "", codeUnusable, "not executable: chmod +x"},
		{"set-user-id", func(d string) error { return file(d+"/p", 0o4755) }, "/p", "", codeUnusable, "would become another user"},
		{"set-group-id", func(d string) error { return file(d+"/p", 0o2755) }, "/p", "", codeUnusable, "would become another user"},

		{"file for all to write", func(d string) error { return file(d+"/bin/p", 0o777) }, "/bin/p", "", codeUntrusted, "/bin/p (mode 0777): chmod go-w "},
		{"directory for all to write", func(d string) error {
			return errors.Join(file(d+"/bin/p", 0o755), mode(d+"/bin", 0o777))
		}, "/bin/p", "", codeUntrusted, "others may write"},
		{"in a sticky directory", func(d string) error {
			return errors.Join(file(d+"/tmp/p", 0o755), mode(d+"/tmp", 0o1777))
		}, "/tmp/p", "", codeUntrusted, "/tmp/p lies in a directory that everybody may write in"},
		{"link in a sticky directory", func(d string) error {
			return errors.Join(file(d+"/v2/p", 0o755), link("../v2", d+"/tmp/l"), mode(d+"/tmp", 0o1777))
		}, "/tmp/l/p", "", codeUntrusted, "/tmp/l lies in a directory that everybody may write in"},
		{"link into one for all to write", func(d string) error {
			return errors.Join(file(d+"/v2/p", 0o755), mode(d+"/v2", 0o777), link("../v2/p", d+"/bin/p"))
		}, "/bin/p", "", codeUntrusted, "/v2 (mode 0777)"},
		{"up through one for all to write", func(d string) error {
			return errors.Join(file(d+"/a/p", 0o755), os.Mkdir(d+"/w", 0o755), mode(d+"/w", 0o777))
		}, "/w/../a/p", "", codeUntrusted, "/w (mode 0777)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := ownDir(t)
			require.NoError(t, c.make(dir))
			b, err := Find(dir + c.path)
			if c.want != "" {
				require.NoError(t, err)
				assert.Equal(t, dir+c.want, b.Resolved)
				require.NoError(t, b.Same())
				return
			}
			r, ok := errors.AsType[*Refusal](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, c.code, r.Code, r.Error())
			assert.Contains(t, r.Error(), c.text)
			assert.Contains(t, r.Error(), "the new program "+dir)
		})
	}
}

// TestOthersProgram: the text tells whose it is, and what to do about Homebrew's.
func TestOthersProgram(t *testing.T) {
	if os.Geteuid() == 0 {
		path := ownDir(t) + "/p"
		require.NoError(t, os.WriteFile(path, nil, 0o755))
		require.NoError(t, os.Chown(path, 65534, -1))
		_, err := Find(path)
		require.ErrorContains(t, err, path+" belongs to user 65534, who could change it: it has to belong to root")
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink("/bin/true", path))
		require.NoError(t, os.Lchown(path, 65534, -1))
		_, err = Find(path)
		require.ErrorContains(t, err, "belongs to user 65534", "a link, too")
	}
	assert.Contains(t, homebrew("/opt/homebrew"), "Homebrew")
	assert.Contains(t, homebrew("/opt/homebrew/bin"), "Homebrew")
	assert.Empty(t, homebrew("/opt/homebrewery"))
}

// TestSame: each of inode, size and time of the file tells of a change alone, as does its absence.
func TestSame(t *testing.T) {
	at := time.Now().Add(-time.Hour)
	write := func(path, content string, at time.Time) error {
		return errors.Join(os.WriteFile(path, []byte(content), 0o755), os.Chtimes(path, at, at))
	}
	for _, c := range []struct {
		name   string
		change func(path string) error
		want   string // empty: it counts as the same
	}{
		{"nothing", func(path string) error { return write(path, "2", at) }, ""},
		{"another file", func(path string) error {
			return errors.Join(write(path+".new", "1", at), os.Rename(path+".new", path))
		}, "it was replaced while it was being tried: ask again"},
		{"another size", func(path string) error { return write(path, "22", at) }, "it was replaced"},
		{"another time", func(path string) error { return write(path, "1", at.Add(time.Second)) }, "it was replaced"},
		{"gone", os.Remove, "no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := ownDir(t) + "/p"
			require.NoError(t, write(path, "1", at))
			b, err := Find(path)
			require.NoError(t, err)
			require.NoError(t, c.change(path))
			if err = b.Same(); c.want == "" {
				require.NoError(t, err)
				return
			}
			r, ok := errors.AsType[*Refusal](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, codeUnusable, r.Code)
			assert.Contains(t, r.Error(), c.want)
		})
	}
}

// TestStartPath has this test binary started in many ways.
func TestStartPath(t *testing.T) {
	dir := ownDir(t)
	self, err := os.Executable()
	require.NoError(t, err)
	content, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/v1", 0o700))
	require.NoError(t, os.WriteFile(dir+"/v1/prog", content, 0o700))
	require.NoError(t, os.Symlink("v1", dir+"/current"))
	require.NoError(t, os.WriteFile(dir+"/other", []byte("x"), 0o700))
	for _, c := range []struct{ name, path, argv0, want string }{
		{"absolute", dir + "/v1/prog", dir + "/v1/prog", dir + "/v1/prog"},
		{"through a link", dir + "/current/prog", dir + "/current/prog", dir + "/current/prog"},
		{"relative", dir + "/v1/prog", "./v1/prog", dir + "/v1/prog"},
		{"relative through a link", dir + "/v1/prog", "current/prog", dir + "/current/prog"},
		{"by PATH", dir + "/v1/prog", "prog", dir + "/current/prog"},
		{"as launchd does", dir + "/v1/prog", "socket_vmnet", dir + "/v1/prog"},
		{"called like another one", dir + "/v1/prog", dir + "/other", dir + "/v1/prog"},
		{"called like nothing", dir + "/v1/prog", dir + "/nothing", dir + "/v1/prog"},
		{"called nothing", dir + "/v1/prog", "", dir + "/v1/prog"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := &exec.Cmd{Path: c.path, Args: []string{c.argv0}, Dir: dir}
			cmd.Env = []string{role + "=path", "PATH=/nowhere:" + dir + "/current:/bin"}
			out, err := cmd.Output()
			require.NoError(t, err)
			got, _, _ := strings.Cut(string(out), " ")
			assert.Equal(t, c.want, got, string(out))
		})
	}
}
