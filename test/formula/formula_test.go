// SPDX-License-Identifier: Apache-2.0

// Package formula_test runs the Homebrew formula without Homebrew: homebrew.rb stands in for it. The programs are built, the
// job that brew services would start is started, and the formula's own test runs, as an ordinary user.
package formula_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	patience = 20 * time.Second
	nobody   = 65534
)

// A brew is a prefix of Homebrew's, and the system that the formula is told it runs on.
type brew struct {
	t      *testing.T
	prefix string
	file   string   // the formula
	macos  string   // empty: Linux
	flags  []string // more of homebrew.rb's
	env    []string
}

func newBrew(t *testing.T) brew {
	t.Helper()
	if _, err := exec.LookPath("ruby"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no ruby, which test/e2e/setup.sh gets")
		}
		t.Skip("no ruby: apt-get install ruby")
	}
	// A short path, for sockets, and one that others can pass.
	prefix, err := os.MkdirTemp("/tmp", "brew")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(prefix) })
	require.NoError(t, os.Chmod(prefix, 0o755))
	return brew{t: t, prefix: prefix, file: "Formula/socket_vmnet2.rb"}
}

// ruby is an action of homebrew.rb, at the root of the sources.
func (b brew) ruby(action string) *exec.Cmd {
	args := []string{"-w", "test/formula/homebrew.rb"}
	if b.macos != "" {
		args = append(args, "--macos="+b.macos)
	}
	args = append(append(args, b.flags...), b.prefix, b.file, action)
	c := exec.CommandContext(b.t.Context(), "ruby", args...)
	c.Dir = "../.."
	c.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	c.Env = append(c.Env, b.env...)
	return c
}

// output runs a command that must succeed, without a warning, and reads the JSON that it prints into v.
func (b brew) output(c *exec.Cmd, v any) {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	require.NoError(b.t, c.Run(), "%s\n%s%s", strings.Join(c.Args, " "), stdout.String(), stderr.String())
	assert.NotContains(b.t, stderr.String(), "warning:", "ruby -w")
	require.NoError(b.t, json.Unmarshal(stdout.Bytes(), v), stdout.String())
}

// unprivileged lets a command run as an ordinary user, as everything of Homebrew's does.
func unprivileged(c *exec.Cmd) *exec.Cmd {
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return c
}

// A service is what the service block says.
type service struct {
	Run              []string `json:"run"`
	RunType          string   `json:"run_type"`
	KeepAlive        bool     `json:"keep_alive"`
	ProcessType      string   `json:"process_type"`
	ThrottleInterval int      `json:"throttle_interval"`
	RequireRoot      bool     `json:"require_root"`
	ErrorLogPath     string   `json:"error_log_path"`
	LogPath          string   `json:"log_path"`
}

func TestService(t *testing.T) {
	for name, macos := range map[string]string{"macOS 14": "14", "macOS 15": "15.7.1", "macOS 26": "26.0", "macOS 27": "27", "Linux": ""} {
		t.Run(name, func(t *testing.T) {
			b := newBrew(t)
			b.macos = macos
			var s service
			b.output(b.ruby("service"), &s)
			assert.Equal(t, service{
				Run:              []string{b.prefix + "/opt/socket_vmnet2/bin/socket_vmnet2", "--vmnet-gateway=192.168.105.1", b.prefix + "/var/run/socket_vmnet"},
				RunType:          "immediate",
				KeepAlive:        true,
				ProcessType:      "interactive",
				ThrottleInterval: 30,
				RequireRoot:      strings.HasPrefix(macos, "1"),
				ErrorLogPath:     b.prefix + "/var/log/socket_vmnet2/stderr",
				LogPath:          b.prefix + "/var/log/socket_vmnet2/stdout",
			}, s)
		})
	}
}

// fakeCodesign keeps the entitlements beside what it signs, and shows them again.
const fakeCodesign = `#!/bin/sh
for program; do :; done
case "$*" in
"--force --sign - --identifier io.github.socket-vmnet2.socket_vmnet2 --entitlements etc/entitlements.plist "*) test -f "$program" && cp etc/entitlements.plist "$program.signed" ;;
--display*) cat "$program.signed" ;;
*) exit 2 ;;
esac
`

// TestInstalled does with the formula what brew does, one after the other: install, post_install, service, test. Installing
// is the tree's owner's, everything else an ordinary user's.
func TestInstalled(t *testing.T) {
	b := newBrew(t)
	b.macos, b.flags = "26.1", []string{"--version=1.2.3"}
	tools := filepath.Join(b.prefix, "tools")
	require.NoError(t, os.Mkdir(tools, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(tools, "codesign"), []byte(fakeCodesign), 0o755))
	b.env = []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "BIN=" + filepath.Join(b.prefix, "build")}

	b.output(b.ruby("install"), &[][]string{})
	keg := filepath.Join(b.prefix, "Cellar/socket_vmnet2/1.2.3")
	for _, name := range []string{"bin/socket_vmnet", "bin/socket_vmnet.signed", "bin/socket_vmnet2", "bin/socket_vmnet2.signed", "bin/socket_vmnet_client", "libexec/vmnet-helper", "share/doc/socket_vmnet/README.md"} {
		fi, err := os.Lstat(filepath.Join(keg, name))
		if assert.NoError(t, err) {
			assert.True(t, fi.Mode().IsRegular(), name)
		}
	}
	if os.Getuid() == 0 {
		require.NoError(t, filepath.WalkDir(b.prefix, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		}))
	}
	b.env = append(b.env, "HOME="+b.prefix, "XDG_STATE_HOME="+b.prefix+"/var/state")

	var none any
	b.output(unprivileged(b.ruby("post_install")), &none)
	assert.DirExists(t, b.prefix+"/var/run")
	assert.DirExists(t, b.prefix+"/var/log/socket_vmnet2")

	t.Run("service", b.testService)
	t.Run("test", b.testTest)
}

// testService starts what brew services would, waits until it serves, and stops it.
func (b brew) testService(t *testing.T) {
	b.t = t
	var s service
	b.output(b.ruby("service"), &s)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	c := unprivileged(exec.CommandContext(ctx, s.Run[0], s.Run[1:]...))
	c.Dir = "/"
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + b.prefix, "XDG_STATE_HOME=" + b.prefix + "/var/state"}
	stderr, err := os.Create(s.ErrorLogPath)
	require.NoError(t, err)
	defer stderr.Close()
	c.Stderr = stderr
	require.NoError(t, c.Start())
	log := func() string { text, _ := os.ReadFile(s.ErrorLogPath); return string(text) }
	socket := s.Run[len(s.Run)-1]
	ready := assert.Eventually(t, func() bool {
		client, err := net.Dial("unix", socket)
		if err == nil {
			err = client.Close()
		}
		return err == nil
	}, patience, 20*time.Millisecond)
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	assert.NoError(t, c.Wait(), "orderly at TERM: %s", log())
	require.True(t, ready, log())
	assert.Contains(t, log(), "INFO | * vmnet_start_address: 192.168.105.1\n")
	assert.NoFileExists(t, socket)
}

// testTest runs the formula's test, which has socket_vmnet's own in it.
func (b brew) testTest(t *testing.T) {
	b.t = t
	var done struct {
		Outputs  [][2]string `json:"outputs"`
		Commands [][]string  `json:"commands"`
	}
	b.output(unprivileged(b.ruby("test")), &done)
	outputs := map[string]string{}
	for _, o := range done.Outputs {
		outputs[o[0]] = o[1]
	}
	bin := b.prefix + "/opt/socket_vmnet2/bin/"
	assert.Contains(t, outputs[bin+"socket_vmnet /dev/null 2>&1"], "ERROR| bind: Address already in use\n")
	assert.Equal(t, "1.2.3\n", outputs[bin+"socket_vmnet2 --version"])
	assert.Contains(t, outputs["codesign --display --entitlements - "+bin+"socket_vmnet2 2>&1"], "com.apple.security.virtualization")
	assert.Len(t, done.Outputs, 5)
	assert.Equal(t, [][]string{{bin + "socket_vmnet_client", b.prefix + "/test/socket", "true"}}, done.Commands)

	// Another program does not pass.
	other := b.prefix + "/Cellar/socket_vmnet2/1.2.3/bin/socket_vmnet"
	require.NoError(t, os.Remove(other))
	require.NoError(t, os.WriteFile(other, []byte("#!/bin/sh\nexit 1\n"), 0o755))
	out, err := unprivileged(b.ruby("test")).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), `no "bind: Address already in use" in ""`)
}
