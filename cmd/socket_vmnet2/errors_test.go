// SPDX-License-Identifier: Apache-2.0

package main

import (
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

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// A mistake is a command line of socket_vmnet2 that is refused with exit code 1, one line and nothing on standard output. DIR stands for
// a directory, in which file is a regular file and s the socket of process PID.
type mistake struct {
	args string
	line string // without "ERROR| "; HELP stands for where to read on
}

// daemonMistakes are those of a new user.
var daemonMistakes = []mistake{
	{"", "no SOCKET: give the path of the socket to serve, such as /tmp/vmnet.sock HELP"},
	{"statsu", `unknown command "statsu": did you mean status? A socket of that name is ./statsu HELP`},
	{"stats --json", `unknown command "stats": did you mean status? A socket of that name is ./stats HELP`},
	{"Status", `unknown command "Status": did you mean status? A socket of that name is ./Status HELP`},
	{"list", `unknown command "list". A socket of that name is ./list HELP`},
	{"stop", `unknown command "stop". A socket of that name is ./stop HELP`},
	{"s1 s2", "two SOCKETs given: s1, s2 HELP"},
	{"GW DIR/none/s", "bind: No such file or directory: the directory DIR/none does not exist: create it"},
	{"GW ~/v.sock", `bind: No such file or directory: "~" was not expanded by the shell: write "$HOME"/v.sock`},
	{"GW DIR", "bind: Address already in use: DIR is a directory: give a path where nothing is yet"},
	{"GW DIR/file", "bind: Address already in use: DIR/file is a regular file: give a path where nothing is yet"},
	{"GW DIR/s", "bind: Address already in use: process PID serves DIR/s already: see socket_vmnet2 status DIR/s"},
	{"GW --pidfile=DIR/pid DIR/t", `Failed to open pidfile: "DIR/pid": Resource temporarily unavailable: process PID has it: a daemon with this pidfile runs already`},
	{"GW --pidfile=DIR/none/pid DIR/t", `Failed to open pidfile: "DIR/none/pid": No such file or directory: the directory DIR/none does not exist: create it`},
	{"GW LONG", fmt.Sprintf("the socket path is too long: 122: at most %d bytes are possible for LONG", compat.MaxSocketPath)},
	{"GW --socket-group=nosuch DIR/t", `unknown group name "nosuch"`},
	{"GW --vmnet-mode=bridge DIR/t", "invalid --vmnet-mode=bridge: use host, shared or bridged HELP"},
	{"--vmnet-gateway=192.168.105.1/24 DIR/t", "invalid --vmnet-gateway=192.168.105.1/24: use 192.168.105.1, and --vmnet-mask=255.255.255.0 HELP"},
	{"GW --vmnet-mask=/24 DIR/t", "invalid --vmnet-mask=/24: use 255.255.255.0"},
	{"GW --vmnet-gatway=192.168.105.1 DIR/t", "unknown option --vmnet-gatway: did you mean --vmnet-gateway? HELP"},
	{"GW --vmnet-reserve=192.168.105.9=52:54:00:12:34:56 DIR/t", "invalid --vmnet-reserve=192.168.105.9=52:54:00:12:34:56: the order is MAC=IP, so use 52:54:00:12:34:56=192.168.105.9 HELP"},
	{"GW --socket-mode=999 DIR/t", "invalid --socket-mode=999: use an octal mode such as 0770, at most 0777 HELP"},
	{"GW --metrics-listen=9105 DIR/t", "invalid --metrics-listen=9105: use an address with a port, such as 127.0.0.1:9105 HELP"},
}

// commandMistakes are those with subcommands.
var commandMistakes = []mistake{
	{"status -w", "unknown option -w HELP"},
	{"status --wach", "unknown option --wach: did you mean --watch? HELP"},
	{"status DIR/file", "DIR/file: it is a file and not a socket: name the SOCKET that a daemon serves"},
	{"status DIR", "DIR: it is a directory and has no control socket of a daemon: name the SOCKET that the daemon serves"},
	{"status DIR/none", "DIR/none: no daemon runs there: start one, or name the SOCKET of the one that runs"},
	{"kick", "no CLIENT HELP"},
	{"kick 3 DIR/file", "DIR/file: it is a file and not a socket: name the SOCKET that a daemon serves"},
	{"help statsu", `unknown command "statsu": did you mean status? (see socket_vmnet2 --help)`},
}

func TestMistakes(t *testing.T) {
	dir := vnettest.ShortDir(t)
	pid := filepath.Join(dir, "pid")
	p := launch(t, "socket_vmnet2", filepath.Join(dir, "s"), "--pidfile="+pid)
	p.logsPidfile(t, pid)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	names := strings.NewReplacer("DIR", dir, "GW", "--backend=usernet --vmnet-gateway=192.168.105.1", "PID", fmt.Sprint(p.Process.Pid), "LONG", "/"+strings.Repeat("x", 121))
	for table, help := range map[*[]mistake]bool{&daemonMistakes: false, &commandMistakes: true} {
		for _, m := range *table {
			t.Run(m.args, func(t *testing.T) {
				words := strings.Fields(names.Replace(m.args))
				where := ""
				if help {
					where = words[0] + " "
				}
				r := refused(t, t.TempDir(), "socket_vmnet2", words...)
				want := strings.Replace(m.line, "HELP", "(see socket_vmnet2 "+where+"--help)", 1)
				assert.Equal(t, "ERROR| "+names.Replace(want)+"\n", r.stderr)
				assert.Empty(t, r.stdout)
			})
		}
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
