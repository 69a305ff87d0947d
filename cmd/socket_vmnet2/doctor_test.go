// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/doctor"
)

// doctorSays runs doctor --json and returns its report.
func doctorSays(t *testing.T, change func(*exec.Cmd), args ...string) doctor.Report {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "socket_vmnet2"), append([]string{"doctor", "--json"}, args...)...)
	cmd.Env = append(os.Environ(), "SUDO_USER=")
	if change != nil {
		change(cmd)
	}
	code, stdout, stderr := outcome(t, cmd)
	var r doctor.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), "%s%s", stdout, stderr)
	assert.Empty(t, stderr)
	assert.Equal(t, r.ExitCode(), code)
	for _, f := range r.Findings {
		assert.NotContains(t, f.Text, "is not known", "no check of this system fails")
		assert.NotContains(t, f.Text, "the check ")
	}
	return r
}

// found are the findings of a check, a line each.
func found(r doctor.Report, check string) string {
	var b strings.Builder
	for _, f := range r.Findings {
		if f.Check == check {
			fmt.Fprintf(&b, "%s: %s | %s\n", f.Severity, f.Text, strings.Join(f.Fix, " | "))
		}
	}
	return b.String()
}

func TestDoctorOfARunningDaemon(t *testing.T) {
	p := start(t)
	p.dial(t, 1)
	r := doctorSays(t, nil, p.sock)
	assert.Contains(t, found(r, "daemons"), fmt.Sprintf("ok: the daemon at %s is socket_vmnet2", p.sock))
	assert.Contains(t, found(r, "daemons"), fmt.Sprintf("process %d", p.Process.Pid))
	assert.Contains(t, found(r, "permissions"), "ok: ")
	assert.Contains(t, found(r, "stale"), "ok: ", "nothing is left over, unless by a daemon that is not of this test")
	assert.NotContains(t, found(r, "stale"), filepath.Dir(p.sock))
	assert.Contains(t, found(r, "state"), "ok: the daemon at "+p.sock+" keeps its state in "+filepath.Dir(p.sock)+"/state")
	assert.Contains(t, found(r, "runtime"), "ok: the daemon at "+p.sock+" has its further sockets in "+p.sock+".d")
	assert.NotContains(t, p.stderr.String(), "doctor", "the daemon does not notice")

	all := doctorSays(t, nil)
	assert.Contains(t, found(all, "daemons"), p.sock, "found without being named")
	byDir := doctorSays(t, nil, p.sock+".d")
	assert.Contains(t, found(byDir, "daemons"), fmt.Sprintf("process %d", p.Process.Pid))
}

// TestDoctorOfWhatAKillLeaves: the socket, and the pidfile, whose number may become another program's.
func TestDoctorOfWhatAKillLeaves(t *testing.T) {
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	p := launch(t, "socket_vmnet2", sock, "--pidfile="+sock+".pid")
	p.ready(t)
	p.logsPidfile(t, sock+".pid")
	_, _ = p.signal(t, syscall.SIGKILL)
	r := doctorSays(t, nil, sock)
	assert.Equal(t, 2, r.ExitCode())
	assert.Contains(t, found(r, "stale"), "warning: "+sock+" is a socket that nothing listens at")
	assert.Contains(t, found(r, "stale"), "sudo rm "+sock)
	assert.Contains(t, found(r, "stale"), fmt.Sprintf("notice: the pidfile %s.pid names process %d, which does not run", sock, p.Process.Pid))

	other := exec.Command("sleep", "1000")
	require.NoError(t, other.Start())
	t.Cleanup(func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	})
	require.NoError(t, os.WriteFile(sock+".pid", fmt.Append(nil, other.Process.Pid), 0o600))
	r = doctorSays(t, nil, sock)
	assert.Contains(t, found(r, "stale"), fmt.Sprintf("warning: the pidfile %s.pid names process %d, which is another program (sleep)", sock, other.Process.Pid))

	again := launch(t, "socket_vmnet2", sock)
	again.ready(t)
	assert.NotContains(t, found(doctorSays(t, nil, sock), "stale"), "nothing listens")
}

// logsPidfile waits until the daemon has written its number.
func (p *process) logsPidfile(t *testing.T, path string) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(path)
		return err == nil && string(b) == fmt.Sprint(p.Process.Pid)
	}, patience, 5e6)
}

// TestDoctorOfADaemonThatIsForOthers asks as a user who may not connect.
func TestDoctorOfADaemonThatIsForOthers(t *testing.T) {
	needRoot(t)
	dir := execDir(t)
	sock := filepath.Join(dir, "s")
	p := launch(t, "socket_vmnet2", sock, "--socket-group=daemon")
	p.ready(t)
	copied := filepath.Join(dir, "socket_vmnet2")
	replaceProgram(t, copied)
	as := func(groups ...uint32) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			cmd.Path, cmd.Dir = copied, "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: groups}}
		}
	}
	r := doctorSays(t, as(), sock)
	assert.Equal(t, 3, r.ExitCode())
	assert.Contains(t, found(r, "permissions"), "error: nobody (65534) may not connect to "+sock)
	join := "sudo usermod --append --groups daemon nobody"
	if runtime.GOOS == "darwin" {
		join = "sudo dseditgroup -o edit -a nobody -t user daemon"
	}
	assert.Contains(t, found(r, "permissions"), join)
	var why []string
	for _, s := range r.Skipped {
		if s.Root {
			why = append(why, s.Why)
		}
	}
	assert.Contains(t, strings.Join(why, "\n"), "its control socket is for others")

	member := doctorSays(t, as(1), sock) // daemon's number on Linux and macOS
	assert.Contains(t, found(member, "permissions"), "ok: nobody (65534) may connect to "+sock)
	assert.Contains(t, found(member, "daemons"), "ok: the daemon at "+sock, "a member may read")

	sudo := doctorSays(t, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "SUDO_USER=nobody") }, sock)
	assert.Contains(t, found(sudo, "permissions"), "error: nobody (65534) may not connect", "sudo is about who called it")
	assert.Contains(t, found(sudo, "daemons"), "ok: the daemon at "+sock)
}

func TestDoctorCommandLines(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, tt := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no address":       {[]string{"--reach=web"}, 1, "--reach=web is no IP address"},
		"a zone":           {[]string{"--reach=fe80::1%en0"}, 1, "is no IP address"},
		"no root":          {[]string{"--root=/does/not/exist"}, 1, "there is no such directory"},
		"a file as root":   {[]string{"--root=" + file}, 1, "is not a directory"},
		"unknown":          {[]string{"--sudo"}, 1, "--sudo"},
		"relative, staged": {[]string{"--root=" + root, "s"}, 1, "s is not absolute"},
		"a staged system":  {[]string{"--root=" + root}, 0, "Nothing is wrong, as far as was checked."},
		"staged, a socket": {[]string{"--root=" + root, "/var/run/socket_vmnet"}, 0, "below " + root},
		"staged, a home":   {[]string{"--root=" + root, "--home=/"}, 0, "Nothing is wrong"},
		"help":             {[]string{"--help"}, 0, "Exit code: 0 nothing is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), append([]string{"doctor"}, tt.args...)...))
			assert.Equal(t, tt.code, code, stdout)
			assert.Contains(t, stdout+stderr, tt.want)
			assert.Equal(t, tt.code == 1, stderr != "", stderr)
		})
	}
}
