// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"howett.net/plist"
)

// tryMake runs make in the tree without what this test may be run with.
func tryMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "make", args...)
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains([]string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "GOOS", "GOARCH", "ARCH", "DESTDIR", "PREFIX", "VERSION", "BRIDGED"}, name) {
			c.Env = append(c.Env, v)
		}
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

// runMake is tryMake that must succeed.
func runMake(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryMake(t, args...)
	require.NoError(t, err, "make %s\n%s", strings.Join(args, " "), out)
	return out
}

// filesBelow are the files below a directory, with their modes.
func filesBelow(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	files := map[string]fs.FileMode{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		rel, _ := filepath.Rel(dir, path)
		files[rel] = fi.Mode()
		return err
	}))
	return files
}

// built has the programs that make built.
type built struct {
	linux, darwin string // directories
}

const builtVersion = "v9.8.7+test"

// TestMake builds once for each system and then installs what was built.
func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "b in") // a path with a space
	b := built{linux: filepath.Join(dir, "linux"), darwin: filepath.Join(dir, "darwin")}
	runMake(t, "build", "VERSION="+builtVersion, "GOOS=linux", "BIN="+b.linux)
	runMake(t, "build", "VERSION="+builtVersion, "GOOS=darwin", "ARCH=arm64", "BIN="+b.darwin)
	for name, test := range map[string]func(*testing.T, built){
		"programs":  testPrograms,
		"signed":    testSigned,
		"Linux":     testInstallLinux,
		"macOS":     testInstallMacOS,
		"doc":       testInstallDoc,
		"not built": testNotBuiltAgain,
		"compat":    testCompat,
	} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

func testPrograms(t *testing.T, b built) {
	for _, name := range []string{"socket_vmnet", "socket_vmnet2"} {
		out, err := exec.Command(filepath.Join(b.linux, name), "--version").Output()
		require.NoError(t, err)
		assert.Equal(t, builtVersion+"\n", string(out))
	}
	out, err := exec.Command(filepath.Join(b.linux, "vmnet-helper"), "--version").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "commit: v9.8.7-test\n", "vmnet-helper has its own form")
}

// Signing comes last on any system, so "make && sudo make install.bin" gives programs that macOS 26 takes.
func testSigned(t *testing.T, b built) {
	const entitled = "-entitlements=etc/entitlements.plist"
	for file, args := range map[string][]string{
		"socket_vmnet2":       {"-identifier=io.github.socket-vmnet2.socket_vmnet2", entitled},
		"socket_vmnet":        {"-identifier=io.github.socket-vmnet2.socket_vmnet2", entitled},
		"socket_vmnet_client": {"-identifier=io.github.socket-vmnet2.socket_vmnet_client"},
		"vmnet-helper":        {"-identifier=io.github.socket-vmnet2.vmnet-helper"},
	} {
		program, err := os.ReadFile(filepath.Join(b.darwin, file))
		require.NoError(t, err)
		copied := filepath.Join(t.TempDir(), file)
		require.NoError(t, os.WriteFile(copied, program, 0o755))
		run(t, []string{"GOOS=", "GOARCH="}, "go", append(append([]string{"-C", "tools/release", "run", ".", "sign"}, args...), copied)...)
		again, err := os.ReadFile(copied)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(program, again), "%s: signing it again gives another file", file)
	}
}

// programFiles is what install.bin makes.
var programFiles = []string{"bin/socket_vmnet", "bin/socket_vmnet2", "bin/socket_vmnet_client", "libexec/vmnet-helper"}

func testInstallLinux(t *testing.T, b built) {
	dest := filepath.Join(t.TempDir(), "a 'b' & c")
	vars := []string{"BIN=" + b.linux, "GOOS=linux", "DESTDIR=" + dest, "PREFIX=/usr/local"}
	out := runMake(t, append(vars, "install")...)
	assert.Contains(t, out, "what was built last is installed")
	assert.Contains(t, out, "DESTDIR is set: no unit is started")
	files := filesBelow(t, dest)
	for _, f := range programFiles {
		assert.Equal(t, fs.FileMode(0o755), files["usr/local/"+f], "%s is a real file: Lima refuses links", f)
	}
	for f, mode := range files {
		if !strings.Contains(f, "/bin/") && !strings.Contains(f, "/libexec/") {
			assert.Equal(t, fs.FileMode(0o644), mode, f)
		}
	}
	units, err := filepath.Glob("etc/systemd/*.*")
	require.NoError(t, err)
	require.NotEmpty(t, units)
	for _, unit := range units {
		text, err := os.ReadFile(filepath.Join(dest, "etc/systemd/system", filepath.Base(unit)))
		require.NoError(t, err)
		assert.NotContains(t, string(text), "/opt/socket_vmnet/")
		if strings.HasSuffix(unit, ".service") {
			assert.Contains(t, string(text), "\nExecStart=/usr/local/bin/socket_vmnet2 ")
		}
	}
	assert.Contains(t, files, "etc/sysusers.d/socket_vmnet2.conf")

	own := filepath.Join(dest, "usr/local/bin/not_ours")
	require.NoError(t, os.WriteFile(own, nil, 0o600))
	runMake(t, append(vars, "uninstall")...)
	assert.Equal(t, []string{"usr/local/bin/not_ours"}, slices.Collect(maps.Keys(filesBelow(t, dest))), "what was there besides stays")
}

func testInstallMacOS(t *testing.T, b built) {
	for name, prefix := range map[string]string{"usual": "/opt/socket_vmnet", "odd": `/opt/a & <b> @ 'c' \1`} {
		t.Run(name, func(t *testing.T) {
			dest := t.TempDir()
			vars := []string{"BIN=" + b.darwin, "GOOS=darwin", "DESTDIR=" + dest, "PREFIX=" + prefix, "BRIDGED=en7"}
			foreign := filepath.Join(dest, "usr/local/bin/socket_vmnet")
			require.NoError(t, os.MkdirAll(filepath.Dir(foreign), 0o755))
			require.NoError(t, os.Symlink("../Cellar/socket_vmnet", foreign))
			out := runMake(t, append(vars, "install")...)
			assert.Contains(t, out, foreign+" was there before and stays\n")
			assert.NotContains(t, out, "sed -e")
			assert.LessOrEqual(t, strings.Count(out, "\n"), 6, out)
			runMake(t, append(vars, "install")...)
			for _, f := range programFiles {
				assert.FileExists(t, filepath.Join(dest, prefix, f))
			}
			for _, f := range []string{
				"bin/socket_vmnet2", "bin/socket_vmnet_client", "share/man/man8/socket_vmnet2.8", "share/zsh/site-functions/_socket_vmnet2",
				"share/bash-completion/completions/socket_vmnet2",
			} {
				to, err := os.Readlink(filepath.Join(dest, "usr/local", f))
				require.NoError(t, err)
				assert.Equal(t, prefix+"/"+f, to, "in the way of shells, sudo and man")
				assert.FileExists(t, filepath.Join(dest, to))
			}
			var shared, bridged struct {
				Label             string
				ProgramArguments  []string
				StandardErrorPath string
			}
			const label = "io.github.socket-vmnet2.socket_vmnet2"
			readPlist(t, filepath.Join(dest, "Library/LaunchDaemons", label+".plist"), &shared)
			assert.Equal(t, label, shared.Label)
			assert.Equal(t, []string{prefix + "/bin/socket_vmnet2", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"}, shared.ProgramArguments)
			readPlist(t, filepath.Join(dest, "Library/LaunchDaemons", label+".bridged.en7.plist"), &bridged)
			assert.Equal(t, label+".bridged.en7", bridged.Label)
			assert.Equal(t, []string{
				prefix + "/bin/socket_vmnet2", "--vmnet-mode=bridged", "--vmnet-interface=en7", "/var/run/socket_vmnet.bridged.en7",
			}, bridged.ProgramArguments)
			for _, path := range []string{shared.StandardErrorPath, bridged.StandardErrorPath} {
				assert.DirExists(t, filepath.Join(dest, filepath.Dir(path)), "launchd does not make it")
			}
			runMake(t, append(vars, "uninstall")...)
			assert.Equal(t, []string{"usr/local/bin/socket_vmnet"}, slices.Collect(maps.Keys(filesBelow(t, dest))))
			assert.NoDirExists(t, filepath.Join(dest, prefix))
			assert.NoDirExists(t, filepath.Join(dest, "usr/local/share/zsh"))
		})
	}
}

func readPlist(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = plist.Unmarshal(text, to)
	require.NoError(t, err)
}

func testInstallDoc(t *testing.T, _ built) {
	dest := t.TempDir()
	vars := []string{"DESTDIR=" + dest, "PREFIX=/opt/socket_vmnet", "GO=false"} // documents need no Go
	runMake(t, append(vars, "install.doc")...)
	files := filesBelow(t, filepath.Join(dest, "opt/socket_vmnet/share"))
	for _, want := range []string{
		"doc/socket_vmnet/README.md", "doc/socket_vmnet/LICENSE", "doc/socket_vmnet/etc_sudoers.d/socket_vmnet2",
		"doc/socket_vmnet/launchd/io.github.socket-vmnet2.socket_vmnet2.plist",
		"man/man8/socket_vmnet2.8", "man/man8/socket_vmnet.8", "man/man1/socket_vmnet_client.1",
		"bash-completion/completions/socket_vmnet2", "bash-completion/completions/socket_vmnet",
		"bash-completion/completions/socket_vmnet_client", "zsh/site-functions/_socket_vmnet2",
		"fish/vendor_completions.d/socket_vmnet2.fish", "fish/vendor_completions.d/socket_vmnet.fish",
		"fish/vendor_completions.d/socket_vmnet_client.fish",
	} {
		assert.Contains(t, files, want)
	}
	pages := 0
	for name := range files {
		if filepath.Ext(name) == ".md" {
			page := filepath.Join(dest, "opt/socket_vmnet/share", name)
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			assert.Empty(t, brokenLinks(page, string(text)), "links to what is not installed")
			pages++
		}
	}
	assert.Greater(t, pages, 20)
	runMake(t, append(vars, "uninstall.doc")...)
	assert.Empty(t, filesBelow(t, dest))
}

// "sudo make install" installs what "make" has built, with the same settings or none.
func testNotBuiltAgain(t *testing.T, b built) {
	dest := t.TempDir()
	runMake(t, "install.bin", "BIN="+b.darwin, "DESTDIR="+dest, "GO=false")
	runMake(t, "install.bin", "BIN="+b.darwin, "DESTDIR="+dest, "GO=false", "GOOS=darwin", "ARCH=arm64", "VERSION="+builtVersion)
	for _, other := range []string{"VERSION=v1", "GOOS=linux", "ARCH=x86_64", "VERSION=v9.8.7.test"} {
		out, err := tryMake(t, "-n", "install.bin", "BIN="+b.darwin, "DESTDIR="+dest, other)
		require.NoError(t, err, out)
		assert.Contains(t, out, "go build", "%s is not what was built", other)
	}
	half := t.TempDir() // a build that was interrupted
	require.NoError(t, os.WriteFile(filepath.Join(half, "socket_vmnet2"), nil, 0o755))
	out, err := tryMake(t, "-n", "install.bin", "BIN="+half, "DESTDIR="+dest)
	require.NoError(t, err, out)
	assert.Contains(t, out, "go build")
}

// testCompat puts the programs in the place of socket_vmnet's and takes them back: on this machine, and on a Mac's root that is prepared
// here. That a rollback leaves no trace is internal/ops/setup's to show.
func testCompat(t *testing.T, b built) {
	for goos, bin := range map[string]string{"linux": b.linux, "darwin": b.darwin} {
		t.Run(goos, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "r oot")
			for path, text := range map[string]string{
				"opt/a b/bin/socket_vmnet": "C",
				"Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist": "<plist><dict><key>ProgramArguments</key><array><string>" +
					"/opt/a b/bin/socket_vmnet</string></array></dict></plist>",
			} {
				require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(root, path), []byte(text), 0o755))
			}
			before := filesBelow(t, root)
			vars := []string{"BIN=" + bin, "GOOS=" + goos, "DESTDIR=" + root, "PREFIX=/opt/a b"}
			out := runMake(t, append(vars, "install.compat")...)
			assert.Contains(t, out, "below /opt/a b:")
			assert.Contains(t, out, "sudo launchctl kickstart -k system/io.github.lima-vm.socket_vmnet\n")
			assert.Contains(t, out, "To go back: sudo '/opt/a b/bin/socket_vmnet2' rollback --prefix='/opt/a b'\n")
			for _, f := range programFiles {
				want, err := os.ReadFile(filepath.Join(bin, filepath.Base(f)))
				require.NoError(t, err)
				got, err := os.ReadFile(filepath.Join(root, "opt/a b", f))
				require.NoError(t, err)
				assert.True(t, bytes.Equal(want, got), f)
			}
			runMake(t, append(vars, "rollback")...)
			assert.Equal(t, before, filesBelow(t, root))
			assert.Contains(t, runMake(t, append(vars, "rollback")...), "There is no backup")
		})
	}
}
