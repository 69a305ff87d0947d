// SPDX-License-Identifier: Apache-2.0

//go:build !race

package main

import (
	"bytes"
	"context"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkPackages looks at what a Debian package has, and that the RPM has the same; it installs that of this machine.
func checkPackages(t *testing.T, arch string, deb, rpm []byte) {
	t.Helper()
	require.True(t, bytes.HasPrefix(rpm, []byte("\xed\xab\xee\xdb")), "an RPM")
	at := bytes.Index(deb, []byte("data.tar.gz"))
	require.Positive(t, at)
	headers, contents := unpack(t, deb[at+60:]) // behind the 60 bytes of ar's header
	var names []string
	for _, h := range headers {
		if h.Typeflag != '0' {
			continue
		}
		name := h.Name[1:]
		names = append(names, name)
		assert.Contains(t, string(rpm[:64<<10]), "\x00"+filepath.Base(name)+"\x00", "the RPM's list of names")
		want := int64(0o644)
		if slices.Contains([]string{"bin", "libexec"}, filepath.Base(filepath.Dir(name))) {
			want = 0o755
		}
		assert.Equal(t, want, h.Mode, name)
		assert.Equal(t, int64(1_700_000_000), h.ModTime.Unix(), name)
		assert.Equal(t, "root root", h.Uname+" "+h.Gname, name)
	}
	for _, want := range []string{
		"/usr/bin/socket_vmnet", "/usr/bin/socket_vmnet_client", "/usr/libexec/vmnet-helper", "/usr/lib/systemd/system/socket_vmnet2-host.socket",
		"/usr/lib/systemd/user/socket_vmnet2.service", "/usr/lib/sysusers.d/socket_vmnet2.conf", "/usr/share/man/man8/socket_vmnet2.8",
		"/usr/share/bash-completion/completions/socket_vmnet2", "/usr/share/zsh/vendor-completions/_socket_vmnet2",
		"/usr/share/doc/socket-vmnet2/LICENSE", "/usr/share/doc/socket-vmnet2/LICENSE.third-party",
	} {
		assert.Contains(t, names, want)
	}
	_, start, _ := strings.Cut(string(contents["./usr/lib/systemd/system/socket_vmnet2.service"]), "\nExecStart=")
	start, _, _ = strings.Cut(start, "\n")
	require.True(t, strings.HasPrefix(start, "/usr/bin/socket_vmnet2 --"), start)
	if arch == runtime.GOARCH && runtime.GOOS == "linux" {
		installPackage(t, deb, names, strings.Fields(start))
	}
}

// needDpkg skips where no package can be installed into a root of its own.
func needDpkg(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("dpkg")
	switch {
	case err == nil && os.Geteuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatal("no dpkg, or not root")
	default:
		t.Skip("needs dpkg, and root for chroot")
	}
}

// A chroot is a root with nothing in it but what the scripts of packages run.
type chroot struct {
	*testing.T
	dir string
}

func newChroot(t *testing.T) chroot {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "deb") // short, for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	for _, d := range []string{"dev", "etc", "proc", "run", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	require.NoError(t, os.WriteFile(dir+"/var/lib/dpkg/status", nil, 0o644))
	require.NoError(t, os.WriteFile(dir+"/dev/null", nil, 0o666))
	files := []string{"/bin/sh", "/bin/rm"}
	for _, f := range files {
		libraries, err := exec.CommandContext(t.Context(), "ldd", f).Output()
		require.NoError(t, err)
		files = append(files, regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1)...)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(dir+f), 0o755))
		require.NoError(t, os.WriteFile(dir+f, b, 0o755))
	}
	return chroot{t, dir}
}

// command runs a program in the root, with a /proc and an end of its own.
func (c chroot) command(ctx context.Context, argv ...string) *exec.Cmd {
	script := `mount -t proc proc "$1/proc" && exec chroot "$@"`
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--net", "sh", "-euc", script, "sh", c.dir}, argv...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	return cmd
}

// dpkg runs the machine's dpkg on the root. It finds no ldconfig there, which nothing of ours needs.
func (c chroot) dpkg(args ...string) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), "dpkg", append([]string{"--root=" + c.dir, "--force-not-root", "--force-bad-path"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	out, err := cmd.CombinedOutput()
	require.NoError(c, err, "dpkg %v\n%s", args, out)
	c.Logf("%s", out)
}

// files are those in the root, without dpkg's own.
func (c chroot) files() (names []string) {
	c.Helper()
	require.NoError(c, filepath.WalkDir(c.dir, func(path string, _ fs.DirEntry, err error) error {
		if name := strings.TrimPrefix(path, c.dir); !strings.HasPrefix(name, "/var/lib/dpkg") && !strings.HasPrefix(name, "/var/log") {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// installPackage installs it into a fresh root, runs what it brought as its unit does, and removes it without a trace.
func installPackage(t *testing.T, deb []byte, names, unit []string) {
	t.Helper()
	needDpkg(t)
	c := newChroot(t)
	file := filepath.Join(t.TempDir(), "x.deb")
	require.NoError(t, os.WriteFile(file, deb, 0o644))
	before := c.files()
	c.dpkg("--install", file)
	for _, name := range names {
		assert.FileExists(t, c.dir+name)
	}
	out, err := c.command(t.Context(), "socket_vmnet2", "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, "v1.2.3-test\n", string(out))

	for _, dir := range []string{"/run/socket_vmnet2", "/var/lib/socket_vmnet2"} { // systemd does
		require.NoError(t, os.Mkdir(c.dir+dir, 0o755))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	daemon := c.command(ctx, unit...)
	var log bytes.Buffer
	daemon.Stderr = &log
	require.NoError(t, daemon.Start())
	socket := unit[len(unit)-1]
	up := assert.Eventually(t, func() bool {
		client, err := net.Dial("unix", c.dir+socket)
		if err == nil {
			_ = client.Close()
		}
		return err == nil
	}, 20*time.Second, 20*time.Millisecond)
	if up {
		out, err = c.command(t.Context(), "socket_vmnet2", "status", socket).CombinedOutput()
		assert.NoError(t, err, "%s", out)
		assert.Contains(t, string(out), "socket_vmnet2 v1.2.3-test at "+socket)
		c.dpkg("--install", file) // an update
	}
	require.NoError(t, daemon.Process.Signal(syscall.SIGTERM))
	require.NoError(t, daemon.Wait(), "%s", &log)
	c.dpkg("--remove", "socket-vmnet2")
	assert.DirExists(t, c.dir+"/var/lib/socket_vmnet2", "what the networks remember stays")
	c.dpkg("--purge", "socket-vmnet2")
	assert.Equal(t, before, c.files())
}
