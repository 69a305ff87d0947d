// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/doctor"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
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
	assert.NotContains(t, found(r, "stale"), filepath.Dir(p.sock))
	assert.Contains(t, found(r, "state"), "ok: the daemon at "+p.sock+" keeps its state in "+filepath.Dir(p.sock)+"/state")
	assert.Contains(t, found(r, "runtime"), "ok: the daemon at "+p.sock+" has its further sockets in "+p.sock+".d")
	assert.NotContains(t, p.stderr.String(), "doctor", "the daemon does not notice")

	all := doctorSays(t, nil)
	assert.Contains(t, found(all, "daemons"), p.sock, "found without being named")
	byDir := doctorSays(t, nil, p.sock+".d")
	assert.Contains(t, found(byDir, "daemons"), fmt.Sprintf("process %d", p.Process.Pid))
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
		"no root":          {[]string{"--root=/does/not/exist"}, 1, "cannot be looked at: stat /does/not/exist/: No such file"},
		"relative, staged": {[]string{"--root=" + root, "s"}, 1, "s is not absolute"},
		"a staged system":  {[]string{"--root=" + root}, 0, "Nothing is wrong, as far as was checked; ok: "},
		"only problems":    {[]string{"--problems", "--root=" + root}, 0, "Nothing is wrong, as far as was checked; ok: "},
		"problems in JSON": {[]string{"--problems", "--json"}, 1, "--problems does not go with --json"},
		"staged, a socket": {[]string{"--root=" + root, "/var/run/socket_vmnet"}, 0, root},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), append([]string{"doctor"}, tt.args...)...))
			assert.Equal(t, tt.code, code, stdout)
			assert.Contains(t, stdout+stderr, tt.want)
			assert.Equal(t, tt.code == 1, stderr != "", stderr)
		})
	}
}

// TestMigrateKnowsSubcommands: a process whose first argument is a subcommand is no daemon to migrate.
func TestMigrateKnowsSubcommands(t *testing.T) {
	assert.ElementsMatch(t, commandNames(), find.Subcommands)
}

func TestMigrateCommandLines(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "opt/socket_vmnet/bin/socket_vmnet")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("#!"), 0o755)) //nolint:gosec // a program
	for name, tt := range map[string]struct {
		root string
		code int
		want string
	}{
		"no directory": {file + "x", 1, "ERROR| --root=" + file + "x cannot be looked at: "},
		"file":         {file, 1, "ERROR| --root=" + file + " cannot be looked at: "},
		"nothing":      {t.TempDir(), 2, "No socket_vmnet was found"},
		"something":    {root, 0, "sudo " + filepath.Join(binaries, "socket_vmnet2") + " install\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), "migrate", "--root="+tt.root))
			assert.Equal(t, tt.code, code)
			assert.Contains(t, stdout+stderr, tt.want)
		})
	}
	_, stdout, _ := outcome(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), "migrate", "--json", "--root="+root))
	var document struct {
		find.Inventory
		Moves []find.Move
	}
	d := json.NewDecoder(strings.NewReader(stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&document))
	assert.Equal(t, "/opt/socket_vmnet/bin/socket_vmnet", document.Programs[0].Path)
	assert.Len(t, document.Moves, 1)
}

// What a person reads, from a dry run to the way back.
func TestInstallReports(t *testing.T) {
	from, root := t.TempDir(), t.TempDir()
	for _, name := range []string{"socket_vmnet", "socket_vmnet2", "socket_vmnet_client", "vmnet-helper"} {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte("#!/bin/sh\necho v1.0\n"), 0o755))
	}
	const job = "Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist"
	require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(job)), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, job), []byte("<plist><dict><key>ProgramArguments</key><array><string>/opt/socket_vmnet/bin/socket_vmnet</string><string>/s</string></array></dict></plist>"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "opt/socket_vmnet/bin"), 0o755))
	require.NoError(t, os.Symlink("/elsewhere", filepath.Join(root, "opt/socket_vmnet/bin/socket_vmnet")))

	const plan = `:
  libexec/vmnet-helper     new
  bin/socket_vmnet_client  new
  bin/socket_vmnet         replaced by a real file; the link to /elsewhere is in the backup
  bin/socket_vmnet2        new
What was there before is kept in /opt/socket_vmnet/share/socket_vmnet2/backup.

Now
  start what /Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist runs anew: sudo launchctl kickstart -k system/io.github.lima-vm.socket_vmnet
  Lima's own networks (lima: in lima.yaml): nothing to change; the daemon is the one that is there now after the last instance on its network was
  stopped and one is started: limactl stop NAME && limactl start NAME
To go back: sudo /opt/socket_vmnet/bin/socket_vmnet2 rollback
`
	code, stdout, stderr := call("install", "--root="+root, "--from="+from, "--dry-run")
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Install v1.0 below /opt/socket_vmnet, if it were not a dry run"+plan, stdout)
	code, stdout, stderr = call("install", "--root="+root, "--from="+from)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "Install v1.0 below /opt/socket_vmnet"+plan, stdout)

	code, stdout, stderr = call("rollback", "--root="+root)
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "Roll back below /opt/socket_vmnet:\n  libexec/vmnet-helper     removed; there was none\n")
	assert.Contains(t, stdout, "  bin/socket_vmnet         the link to /elsewhere again\n")
	code, stdout, stderr = call("rollback", "--root="+root)
	assert.Zero(t, code, stderr)
	assert.Equal(t, "There is no backup in /opt/socket_vmnet/share/socket_vmnet2: nothing was installed, or it was rolled back.\n", stdout)

	require.NoError(t, os.Chmod(filepath.Join(root, "opt"), 0o777))
	code, stdout, stderr = call("install", "--root="+root, "--from="+from)
	assert.Equal(t, 1, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "ERROR| --prefix=/opt/socket_vmnet: /opt/socket_vmnet is not safe: /opt can be written by everybody (mode 0777)")
}
