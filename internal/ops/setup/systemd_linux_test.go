// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A caller runs socket_vmnet2 service in the rig, as root or as a user with a systemd of their own.
type caller struct {
	t     *testing.T
	user  *syscall.Credential
	env   []string
	units string // where its units are
	calls string // where its commands are recorded
}

// newCaller puts programs in front of the manager's own that record how they are called.
func newCaller(t *testing.T, user *syscall.Credential, units, name string, env ...string) *caller {
	t.Helper()
	c := &caller{t: t, user: user, units: units, calls: "/run/calls-" + name}
	bin := "/run/bin-" + name
	require.NoError(t, os.MkdirAll(bin, 0o755))
	for _, program := range []string{"systemctl", "systemd-sysusers"} {
		script := "#!/bin/sh\necho \"" + program + " $*\" >>" + c.calls + "\nexec /usr/bin/" + program + " \"$@\"\n"
		require.NoError(t, os.WriteFile(bin+"/"+program, []byte(script), 0o755))
	}
	c.env = append([]string{"PATH=" + bin + ":/usr/bin:/bin"}, env...)
	return c
}

// run runs a command, and returns its exit code and what it prints.
func (c *caller) run(argv ...string) (code int, out string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), argv[0], argv[1:]...)
	cmd.Env = c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.user}
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		require.NoError(c.t, err)
	}
	return cmd.ProcessState.ExitCode(), b.String()
}

func (c *caller) service(args ...string) (code int, out string) {
	c.t.Helper()
	return c.run(append([]string{rigProgramPath, "service"}, args...)...)
}

// changes are the commands that were run since the last call, without those that only ask.
func (c *caller) changes() (commands []string) {
	c.t.Helper()
	b, err := os.ReadFile(c.calls)
	if err != nil {
		return nil
	}
	require.NoError(c.t, os.WriteFile(c.calls, nil, 0o666))
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "systemctl show ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// do makes a dry run, which must change nothing, and then the same for real, which must do just what the dry run said. want is
// part of what is printed then.
func (c *caller) do(want string, args ...string) {
	c.t.Helper()
	before := filesBelow(c.t, c.units)
	c.changes()
	code, dry := c.service(append([]string{args[0], "--dry-run"}, args[1:]...)...)
	require.Equal(c.t, 0, code, dry)
	assert.Empty(c.t, c.changes(), "a dry run of %v only asks", args)
	assert.Equal(c.t, before, filesBelow(c.t, c.units))

	code, out := c.service(args...)
	require.Equal(c.t, 0, code, out)
	assert.Contains(c.t, out, want)
	happened(c.t, dry, "", c.units, before, c.changes())
}

func (c *caller) status(code int, want string, args ...string) {
	c.t.Helper()
	got, out := c.service(append([]string{"status"}, args...)...)
	assert.Equal(c.t, code, got, out)
	assert.Contains(c.t, out, want)
}

// connects tells whether a user can connect to a socket.
func (c *caller) connects(uid, gid uint32, socket string) bool {
	c.t.Helper()
	as := *c
	as.user = &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{gid}}
	code, _ := as.run(rigProgramPath, "exec", socket, "/bin/true")
	return code == 0
}

const (
	member, stranger = 1001, 1002
	kvm              = 109
	shared           = "/var/run/socket_vmnet" // a link to where the service may write
	owned            = "/run/socket_vmnet2/shared"
)

// TestSystemd gives the service to a real systemd, with all that the units ask for: the user, the sandbox, the notifications.
func TestSystemd(t *testing.T) {
	if !inside(t) {
		return
	}
	c := newCaller(t, nil, "/etc/systemd/system", "root")
	c.status(exitNotInstalled, "is not installed")
	c.do("there is nothing to do", "stop")
	c.do("there is nothing to do", "uninstall")
	code, out := c.service("start")
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "service install")

	testRefusals(t, c)
	c.do("is installed and started", "install")
	c.status(exitRunning, shared+" accepts connections")
	assert.True(t, c.connects(member, kvm, shared), "the group kvm may connect")
	assert.False(t, c.connects(stranger, stranger, shared), "others may not")
	c.do("there is nothing to do", "install")
	c.do("there is nothing to do", "start")

	t.Run("killed", func(t *testing.T) {
		_, pid := c.run("/usr/bin/systemctl", "show", "--value", "--property=MainPID", "socket_vmnet2")
		code, out := c.run("/usr/bin/systemctl", "kill", "--signal=KILL", "socket_vmnet2")
		require.Equal(t, 0, code, out)
		require.Eventually(t, func() bool {
			_, now := c.run("/usr/bin/systemctl", "show", "--value", "--property=MainPID", "socket_vmnet2")
			_, s := c.run("/usr/bin/systemctl", "is-active", "socket_vmnet2")
			return strings.TrimSpace(now) != "0" && now != pid && reach(shared) == nil && strings.TrimSpace(s) == "active"
		}, patience, 20*time.Millisecond, "systemd starts it again, and the network is up")
	})
	c.do("is started again", "restart")
	c.do("is stopped", "stop")
	c.status(exitStopped, "is stopped")
	c.do("there is nothing to do", "stop")
	c.do("is started", "restart")
	c.do("it is changed", "install", "--", "--vmnet-gateway=192.168.107.1", "--dns-record=a.b=192.168.107.9", owned)
	c.status(exitRunning, "--dns-record=a.b=192.168.107.9")

	t.Run("cannot start", func(t *testing.T) {
		const hurry = "/etc/systemd/system/socket_vmnet2.service.d"
		require.NoError(t, os.Mkdir(hurry, 0o755))
		require.NoError(t, os.WriteFile(hurry+"/test.conf", []byte("[Service]\nRestartSec=1ms\n"), 0o644))
		_, _ = c.run("/usr/bin/systemctl", "daemon-reload")
		require.NoError(t, os.Rename(rigProgramPath, "/opt/kept"))
		require.NoError(t, os.WriteFile(rigProgramPath, []byte("#!/bin/sh\nexit 1\n"), 0o755))
		_, _ = c.run("/usr/bin/systemctl", "restart", "socket_vmnet2")
		require.Eventually(t, func() bool {
			_, s := c.run("/usr/bin/systemctl", "is-active", "socket_vmnet2")
			return strings.TrimSpace(s) == "failed"
		}, patience, 20*time.Millisecond, "systemd gives up")
		require.NoError(t, os.RemoveAll(hurry))
		_, _ = c.run("/usr/bin/systemctl", "daemon-reload")
		require.NoError(t, os.Rename("/opt/kept", rigProgramPath))
		c.do("is started", "start")
	})
	testActivated(t, c)
	c.do("is installed and started", "install", "--network=host")
	c.do("is uninstalled", "uninstall")
	assert.NoFileExists(t, shared, "nothing is in the way of a daemon that is started by hand")
	_, err := os.Lstat(shared + ".d")
	assert.ErrorIs(t, err, os.ErrNotExist)
	c.status(exitRunning, "192.168.106.1", "--network=host")
	assert.NoError(t, reach("/var/run/socket_vmnet.host"))
	c.do("is stopped", "stop", "--network=host")
	c.do("is uninstalled", "uninstall", "--network=host")
	c.status(exitNotInstalled, "is not installed", "--network=host")
	assert.DirExists(t, "/var/lib/socket_vmnet2")
}

// testRefusals: what cannot work is refused before anything is touched, and told with what to do. TestLaunchdRefusals has what both
// systems refuse.
func testRefusals(t *testing.T, c *caller) {
	t.Helper()
	before := filesBelow(t, "/etc")
	refused := func(c *caller, want string, args ...string) {
		t.Helper()
		code, out := c.service(append([]string{"install"}, args...)...)
		assert.Equal(t, 1, code, out)
		assert.Contains(t, out, want)
		assert.Empty(t, c.changes())
		assert.Equal(t, before, filesBelow(t, "/etc"))
	}
	user, none := *c, *c
	user.user = &syscall.Credential{Uid: member, Gid: member}
	refused(&user, "a job of the system needs root")
	none.env = []string{"PATH=/nowhere"}
	refused(&none, "systemd cannot be asked: exec: \"systemctl\": executable file not found in $PATH: to do without a service, run the daemon yourself")
	refused(c, "there is no group nobodys for the socket", "--", "--socket-group=nobodys", owned)
}

// testActivated has systemd make the socket. It begins with no directory of sockets, as after a boot.
func testActivated(t *testing.T, c *caller) {
	t.Helper()
	c.do("it is changed", "install", "--socket-activated")
	c.do("there is nothing to do", "install", "--socket-activated")
	c.do("is stopped", "stop")
	require.NoError(t, os.RemoveAll("/run/socket_vmnet2"))
	code, out := c.run("/usr/bin/systemctl", "start", "socket_vmnet2.socket")
	require.Equal(t, 0, code, out)
	c.status(exitStopped, "accepts connections") // and that has started it
	require.Eventually(t, func() bool {
		code, _ := c.service("status")
		_, err := os.Stat(shared + ".d/control")
		return code == exitRunning && err == nil
	}, patience, 20*time.Millisecond, "the connection starts the service")
	assert.True(t, c.connects(member, kvm, shared), "the group kvm may connect")
	assert.False(t, c.connects(stranger, stranger, shared), "others may not")
	c.do("is started again", "restart")
	assert.NoError(t, reach(shared))
	c.do("it is changed", "install")
	assert.NoFileExists(t, "/etc/systemd/system/socket_vmnet2.socket")
}

// TestSystemdUser gives the service to the systemd of a user.
func TestSystemdUser(t *testing.T) {
	if !inside(t) {
		return
	}
	const home, runtime = "/home/member", "/run/user/1001"
	units := home + "/.config/systemd/user"
	root := newCaller(t, nil, "/etc/systemd/system", "root")
	code, out := root.run("/usr/bin/install", "-d", "-o", "member", "-g", "member", runtime, home, home+"/targets", home+"/.config", home+"/.config/systemd", units)
	require.Equal(t, 0, code, out)
	for _, target := range []string{"basic", "default", "sockets", "shutdown"} {
		require.NoError(t, os.WriteFile(home+"/targets/"+target+".target", []byte("[Unit]\nDefaultDependencies=no\n"), 0o644))
	}
	env := []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + runtime, "SYSTEMD_UNIT_PATH=" + units + ":" + home + "/targets"}
	require.NoError(t, os.WriteFile("/etc/systemd/system/session.service", []byte("[Unit]\nDefaultDependencies=no\n[Service]\nType=notify\nUser=member\nDelegate=yes\n"+
		"Environment="+strings.Join(env, " ")+"\nExecStart=/lib/systemd/systemd --user --unit=basic.target\n"), 0o644))
	for _, args := range [][]string{{"daemon-reload"}, {"start", "session.service"}} {
		code, out := root.run(append([]string{"/usr/bin/systemctl"}, args...)...)
		require.Equal(t, 0, code, out)
	}
	t.Cleanup(func() { _ = exec.Command("/usr/bin/systemctl", "kill", "--signal=KILL", "session.service").Run() }) // it knows no way to end
	c := newCaller(t, &syscall.Credential{Uid: member, Gid: member}, units, "member", env...)
	require.NoError(t, os.WriteFile(c.calls, nil, 0o666))
	require.NoError(t, os.Chmod(c.calls, 0o666))

	c.status(exitNotInstalled, "is not installed", "--user")
	c.do("is installed and started", "install", "--user")
	c.status(exitRunning, runtime+"/socket_vmnet2/shared accepts connections", "--user")
	c.do("there is nothing to do", "install", "--user")
	c.do("it is changed", "install", "--user", "--socket-activated")
	c.do("is started again", "restart", "--user")
	c.do("is stopped", "stop", "--user")
	c.status(exitStopped, "is stopped", "--user")
	c.do("is started", "start", "--user")
	c.do("is uninstalled", "uninstall", "--user")
}
