// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// mistakes are command lines of socket_vmnet2 that are refused with exit code 1, one line and nothing on standard output. DIR stands for
// a directory, in which file is a regular file and s the socket of process PID. Package compat has the others.
var mistakes = []struct {
	args string
	line string // without "ERROR| "; HELP stands for where to read on
}{
	{"", "no SOCKET: give the path of the socket to serve, such as /tmp/vmnet.sock HELP"},
	{"statsu", `unknown command "statsu": did you mean status? A socket of that name is ./statsu HELP`},
	{"GW DIR/none/s", "bind: No such file or directory: the directory DIR/none does not exist: create it"},
	{"GW DIR/file", "bind: Address already in use: DIR/file is a regular file: give a path where nothing is yet"},
	{"GW DIR/s", "bind: Address already in use: process PID serves DIR/s already: see socket_vmnet2 status DIR/s"},
	{"GW --pidfile=DIR/pid DIR/t", `Failed to open pidfile: "DIR/pid": Resource temporarily unavailable: process PID has it: a daemon with this pidfile runs already`},
	{"GW --pidfile=DIR/none/pid DIR/t", `Failed to open pidfile: "DIR/none/pid": No such file or directory: the directory DIR/none does not exist: create it`},
	{"GW --socket-group=nosuch DIR/t", `unknown group name "nosuch"`},
	{"GW --metrics-listen=9105 DIR/t", "invalid --metrics-listen=9105: use an address with a port, such as 127.0.0.1:9105 HELP"},
	{"status DIR/file", "DIR/file: it is a file and not a socket: name the SOCKET that a daemon serves"},
	{"status DIR", "DIR: it is a directory and has no control socket of a daemon: name the SOCKET that the daemon serves"},
	{"status DIR/none", "DIR/none: no daemon runs there: start one, or name the SOCKET of the one that runs"},
}

func TestMistakes(t *testing.T) {
	dir := vnettest.ShortDir(t)
	pid := filepath.Join(dir, "pid")
	p := launch(t, "socket_vmnet2", filepath.Join(dir, "s"), "--pidfile="+pid)
	p.logsPidfile(t, pid)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	names := strings.NewReplacer("DIR", dir, "GW", "--backend=usernet --vmnet-gateway=192.168.105.1", "PID", fmt.Sprint(p.Process.Pid), "HELP", "(see socket_vmnet2 --help)")
	for _, m := range mistakes {
		t.Run(m.args, func(t *testing.T) {
			r := refused(t, t.TempDir(), "socket_vmnet2", strings.Fields(names.Replace(m.args))...)
			assert.Equal(t, "ERROR| "+names.Replace(m.line)+"\n", r.stderr)
			assert.Empty(t, r.stdout)
		})
	}
}

// TestMistakesOfUsers: an ordinary user is told where its socket can be.
func TestMistakesOfUsers(t *testing.T) {
	vnettest.NeedRoot(t)
	require.NoError(t, os.Chmod(binaries, 0o755))
	dir := vnettest.ShortDir(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	place := map[bool]string{true: "$XDG_RUNTIME_DIR", false: "$HOME"}[runtime.GOOS == "linux"]
	for _, args := range []string{dir + "/s", "--pidfile=" + dir + "/s " + dir + "/t"} {
		for _, name := range []string{"socket_vmnet", "socket_vmnet2"} {
			c := exec.Command(filepath.Join(binaries, name), append([]string{"--vmnet-gateway=192.168.105.1"}, strings.Fields(args)...)...)
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			code, stdout, stderr := outcome(t, c)
			assert.Equal(t, 1, code)
			assert.Empty(t, stdout)
			between := map[string]string{"socket_vmnet": "\nERROR| ", "socket_vmnet2": ": "}[name]
			assert.Contains(t, stderr, "Permission denied"+between+"this user may not make "+dir+"/s: use sudo, or a path in "+place+"\n")
		}
	}
}

// result is what a daemon that must not start has said.
type result struct{ stdout, stderr string }

// refused runs name with args in dir and checks that it exits with 1 and leaves dir as it was.
func refused(t *testing.T, dir, name string, args ...string) result {
	t.Helper()
	before := listing(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, name), args...)
	cmd.Dir = dir
	code, stdout, stderr := outcome(t, cmd)
	assert.Equal(t, 1, code, "it started or was killed: %s", stderr)
	assert.Equal(t, before, listing(t, dir), "nothing is made or removed")
	return result{stdout, stderr}
}

// listing is the names and kinds of the files in dir, but for lock files.
func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		fi, err := e.Info()
		require.NoError(t, err)
		names = append(names, fi.Mode().String()+" "+e.Name())
	}
	return names
}

func TestHomebrewFormulaContract(t *testing.T) {
	for name, line := range map[string]string{"socket_vmnet": "in use\nERROR| ", "socket_vmnet2": "in use: "} {
		r := refused(t, t.TempDir(), name, "/dev/null")
		assert.Contains(t, r.stderr, "ERROR| bind: Address already "+line+"/dev/null is not a socket: give a path where nothing is yet\n")
	}
	fi, err := os.Lstat("/dev/null")
	require.NoError(t, err)
	assert.NotZero(t, fi.Mode()&os.ModeCharDevice, "/dev/null is still there")
}
