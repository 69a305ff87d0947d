// SPDX-License-Identifier: Apache-2.0

// Package integrations runs what docs/integrations says, with the built programs: every shell block and the Go program, with a
// script in the place of vfkit, krunkit and QEMU that notes how it was called.
package integrations

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
	"github.com/socket-vmnet2/socket_vmnet2/test/lab"
)

// patience is how long anything may take.
const patience = 30 * time.Second

// prefix is where TestMain has installed the programs.
var prefix string

func TestMain(m *testing.M) {
	lab.DropInherited() // so that fd=3 is as the pages have it
	os.Exit(func() int {
		dir, err := os.MkdirTemp("/tmp", "in")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		prefix = dir
		if err := install(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// A vmm notes its name and its arguments, once the descriptors that they name are there.
const vmm = `#!/bin/sh
for fd in $(echo "$*" | sed -n 's/.*\(fd\|local\.str\)=\([0-9][0-9]*\).*/\2/p'); do
	[ -S /dev/fd/$fd ] || { echo "${0##*/}: descriptor $fd is no socket" >&2; exit 1; }
done
echo "${0##*/} $*" >>"$REPORT"
`

// install builds the programs and puts a vmm in the place of the others.
func install() error {
	for out, pkg := range map[string]string{
		"bin/socket_vmnet2": "./cmd/socket_vmnet2", "bin/socket_vmnet_client": "./cmd/socket_vmnet_client", "libexec/vmnet-helper": "./cmd/vmnet-helper",
	} {
		if err := lab.BuildGo(context.Background(), pkg, filepath.Join(prefix, out)); err != nil {
			return err
		}
	}
	for _, name := range []string{"vfkit", "krunkit", "qemu-system-x86_64"} {
		if err := os.WriteFile(filepath.Join(prefix, "bin", name), []byte(vmm), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// A daemon is socket_vmnet2 with the embedded network.
type daemon struct {
	*lab.Lab
	*lab.Daemon
}

func start(t *testing.T) daemon {
	t.Helper()
	l, err := lab.New(t.Context(), lab.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return startIn(t, l)
}

// startIn starts the daemon, perhaps again.
func startIn(t *testing.T, l *lab.Lab) daemon {
	t.Helper()
	d, err := l.StartDaemon(t.Context(), filepath.Join(prefix, "bin/socket_vmnet2"), []string{
		"--backend=usernet", "--vmnet-gateway=192.168.105.1", "--state-dir=" + l.Path("state"), "--allow-uid=" + strconv.Itoa(os.Getuid()), l.Path("s"),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("daemon:\n%s", d.Output())
		}
	})
	return daemon{l, d}
}

// A block is a fenced block of a page.
type block struct {
	page     string
	line     int
	language string
	text     string
}

// fence begins or ends one.
var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// blocks are those of all pages.
func blocks(t *testing.T) (all []block) {
	t.Helper()
	pages, err := filepath.Glob("../../docs/integrations/*.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(pages), 2)
	for _, page := range pages {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, at := range fence.FindAllSubmatchIndex(b, -1) {
			all = append(all, block{
				filepath.Base(page), 1 + bytes.Count(b[:at[0]], []byte("\n")), string(b[at[2]:at[3]]), string(b[at[4]:at[5]]),
			})
		}
	}
	return all
}

// here puts this test's paths in the place of the installed ones.
func (d daemon) here(text string) string {
	return strings.NewReplacer(
		"/opt/socket_vmnet/", prefix+"/", "/var/run/socket_vmnet", d.Socket, "/tmp/", d.Dir+"/",
	).Replace(text)
}

// environment is that of a command: the programs first in the path, and where machines report.
func (d daemon) environment() []string {
	return append(os.Environ(), "PATH="+filepath.Join(prefix, "bin")+":"+os.Getenv("PATH"), "REPORT="+d.Path("report"))
}

// reports are the calls of machines since the last time.
func (d daemon) reports(t *testing.T) []string {
	t.Helper()
	file := d.Path("report")
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	require.NoError(t, os.Remove(file))
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// TestShellBlocks runs each of them. In each one machine is started.
func TestShellBlocks(t *testing.T) {
	d := start(t)
	ran := map[string]int{}
	for _, b := range blocks(t) {
		require.Contains(t, []string{"sh", "go", "yaml", "text"}, b.language, "%s:%d: what is this?", b.page, b.line)
		if b.language != "sh" {
			continue
		}
		t.Run(fmt.Sprintf("%s:%d", b.page, b.line), func(t *testing.T) {
			// vmnet-helper ends with its machine, which the script never is.
			cmd := exec.Command("/bin/sh", "-euc", strings.Replace(d.here(b.text), "wait $!", "kill $!", 1))
			cmd.Env, cmd.Dir = d.environment(), d.Dir
			out := run(t, cmd)
			reports := d.reports(t)
			require.Len(t, reports, 1, "one machine: %s", out)
			program, rest, _ := strings.Cut(reports[0], " ")
			ran[program]++
			assert.NotContains(t, rest, "{", "what exec fills in is filled in")
		})
	}
	assert.GreaterOrEqual(t, ran["vfkit"], 4)
	assert.GreaterOrEqual(t, ran["krunkit"], 3)
	assert.GreaterOrEqual(t, ran["qemu-system-x86_64"], 4)
	t.Log(ran)
}

// run runs a command to its end, which may be a build without a cache.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out := &vnettest.Log{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(2*patience, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	require.NoError(t, cmd.Wait(), "%s: %s", cmd, out)
	return out.String()
}

// buildOutside builds a program that uses the module attach as other projects do, in a module of its own.
func buildOutside(t *testing.T, program string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	attach, err := filepath.Abs("../../attach")
	require.NoError(t, err)
	const path = "github.com/socket-vmnet2/socket_vmnet2/attach"
	for name, text := range map[string]string{
		"main.go": program,
		"go.mod":  "module example.com/vmm\n\ngo 1.24\n\nrequire " + path + " v0.0.0\n\nreplace " + path + " => " + attach + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	build := exec.Command("go", "build", "-o", "vmm", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	run(t, build)
	return filepath.Join(dir, "vmm")
}

// TestGoProgram runs the page's program.
func TestGoProgram(t *testing.T) {
	d := start(t)
	var program string
	for _, b := range blocks(t) {
		if b.language == "go" && strings.HasPrefix(b.text, "package main") {
			require.Empty(t, program)
			program = b.text
		}
	}
	require.NotEmpty(t, program)
	cmd := exec.Command(buildOutside(t, d.here(program)))
	cmd.Env = d.environment()
	run(t, cmd)
	reports := d.reports(t)
	require.Len(t, reports, 1)
	assert.True(t, strings.HasPrefix(reports[0], "vfkit "), reports[0])
	require.Eventually(t, func() bool { return strings.Contains(d.Output().String(), "client gone") }, patience, 10*time.Millisecond,
		"the program's end ends the session")
	assert.Regexp(t, `via=attach.*web|web.*via=attach`, d.Output().String(), "its name is in the log")
}

// startProgram starts the program of testdata with the daemon's socket, to do what. says is its next line.
func (d daemon) startProgram(t *testing.T, what string) (cmd *exec.Cmd, says func() string) {
	t.Helper()
	text, err := os.ReadFile("testdata/vmm.go")
	require.NoError(t, err)
	cmd = exec.Command(buildOutside(t, string(text)), d.Socket, what)
	cmd.Env = d.environment()
	var stderr vnettest.Log
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	timer := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	lines := bufio.NewScanner(stdout)
	return cmd, func() string {
		require.True(t, lines.Scan(), "%s", &stderr)
		return lines.Text()
	}
}

// TestGoAdopt runs a program that hands its own descriptor over, until the daemon stops.
func TestGoAdopt(t *testing.T) {
	d := start(t)
	cmd, says := d.startProgram(t, "adopt")
	for _, want := range []string{
		"shared 192.168.105.0/24 6ba7b810-9dad-41d1-80b4-00c04fd430c8", "second with this id: true", "machine ran",
	} {
		assert.Equal(t, want, says())
	}
	assert.Len(t, d.reports(t), 1)
	_, err := d.Stop(t.Context(), syscall.SIGTERM)
	require.NoError(t, err)
	assert.Contains(t, says(), "the daemon ended the session")
	require.NoError(t, cmd.Wait())
}

// TestGoKeep runs a program whose machine goes on with the next daemon, and which the daemon kicks then.
func TestGoKeep(t *testing.T) {
	d := start(t)
	cmd, says := d.startProgram(t, "keep")
	assert.Equal(t, "machine ran", says())
	_, err := d.Stop(t.Context(), syscall.SIGTERM)
	require.NoError(t, err)
	startIn(t, d.Lab)
	assert.Equal(t, "machine ran again", says())
	require.NoError(t, exec.Command(filepath.Join(prefix, "bin/socket_vmnet2"), "kick", "kept", d.Socket).Run())
	assert.Equal(t, "kicked: true", says())
	require.NoError(t, cmd.Wait())
}
