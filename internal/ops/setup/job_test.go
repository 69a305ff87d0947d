// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"howett.net/plist"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
)

func darwin() *system {
	return &system{System: find.System{GOOS: "darwin"}, Home: "/Users/me", UID: 501}
}

func linux() *system { return &system{System: find.System{GOOS: "linux"}, Home: "/home/me", UID: 1000} }

func TestBadOptions(t *testing.T) {
	daemon := func(args ...string) JobOptions { return JobOptions{Daemon: args} }
	for name, tt := range map[string]struct {
		sys  *system
		o    JobOptions
		want string
	}{
		"network":                      {darwin(), JobOptions{Network: "nat"}, "--network=nat is none of shared, host and bridged"},
		"bridged without interface":    {darwin(), JobOptions{Network: "bridged"}, "--network=bridged needs --interface"},
		"bridged on Linux":             {linux(), JobOptions{Network: "bridged", Interface: "eth0"}, "needs macOS"},
		"interface of no bridge":       {darwin(), JobOptions{Interface: "en0"}, "--interface=en0 is for --network=bridged"},
		"interface that is a path":     {darwin(), JobOptions{Network: "bridged", Interface: "../en0"}, "use the name of an interface"},
		"name with a slash":            {darwin(), JobOptions{Name: "a/b"}, "--name=a/b cannot be the name of a job"},
		"name that is too long":        {linux(), JobOptions{Name: strings.Repeat("a", 65)}, "cannot be the name"},
		"name of a network":            {darwin(), JobOptions{Name: "host"}, "--name=host is taken"},
		"name without options":         {darwin(), JobOptions{Name: "lab"}, "--name=lab needs the daemon's options"},
		"relative prefix":              {darwin(), JobOptions{Prefix: "opt"}, "invalid --prefix=opt: use an absolute path"},
		"prefix with a blank":          {linux(), JobOptions{Prefix: `/opt/a b`}, `"/opt/a b/bin/socket_vmnet2": systemd cannot have this in a unit as it is`},
		"socket with a percent sign":   {linux(), daemon("/run/socket_vmnet2/a%n"), `"/run/socket_vmnet2/a%n": systemd cannot have`},
		"empty option on Linux":        {linux(), daemon("--pidfile", "", "/run/socket_vmnet2/a"), `"": systemd cannot have`},
		"two sockets":                  {darwin(), daemon("/a", "/b"), "two SOCKETs given: /a, /b"},
		"relative pidfile":             {darwin(), daemon("--pidfile=a", "/b"), "--pidfile (a) is not an absolute path"},
		"unknown option":               {darwin(), daemon("--vmnet-gatewai=1.2.3.4", "/a"), "the daemon's options behind --: "},
		"help":                         {darwin(), daemon("--help"), "only print something"},
		"list":                         {darwin(), daemon("--list-interfaces"), "only print something"},
		"another mode":                 {darwin(), daemon("--vmnet-mode=host", "/a"), "another kind than --network=shared"},
		"another interface":            {darwin(), JobOptions{Network: "bridged", Interface: "en0", Daemon: []string{"--vmnet-mode=bridged", "--vmnet-interface=en1", "/a"}}, "--interface is en0"},
		"control character":            {darwin(), daemon("/a\nb"), "has a control character"},
		"no UTF-8":                     {linux(), daemon("/a\xff"), "is not text"},
		"socket outside /run on Linux": {linux(), daemon("/tmp/a"), "SOCKET (/tmp/a) must be in /run/socket_vmnet2"},
		"socket that leads out":        {linux(), daemon("/run/socket_vmnet2/../a"), "must be in /run/socket_vmnet2"},
		"state outside on Linux":       {linux(), daemon("--state-dir=/srv", "/run/socket_vmnet2/a"), "--state-dir (/srv) must be in"},
		"owner of an activated socket": {linux(), JobOptions{Activated: true, Daemon: []string{"--socket-group=x", "/run/socket_vmnet2/a"}}, "leave out --socket-user"},
		"owner on Linux":               {linux(), daemon("--socket-user=me", "/run/socket_vmnet2/a"), "--socket-user needs root"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Installing = true
			_, err := NewJob(tt.sys, tt.o)
			require.ErrorContains(t, err, tt.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		sys          *system
		o            JobOptions
		name, socket string
	}{
		{darwin(), JobOptions{}, "io.github.socket-vmnet2.socket_vmnet2", "/var/run/socket_vmnet"},
		{darwin(), JobOptions{Network: "host"}, "io.github.socket-vmnet2.socket_vmnet2.host", "/var/run/socket_vmnet.host"},
		{darwin(), JobOptions{Network: "bridged", Interface: "en7"}, "io.github.socket-vmnet2.socket_vmnet2.bridged.en7", "/var/run/socket_vmnet.bridged.en7"},
		{darwin(), JobOptions{Name: "lab", Daemon: []string{"/var/run/lab"}}, "io.github.socket-vmnet2.lab", "/var/run/lab"},
		{darwin(), JobOptions{User: true, Network: "host"}, "io.github.socket-vmnet2.socket_vmnet2.host", "/Users/me/.socket_vmnet2/host"},
		{linux(), JobOptions{}, "socket_vmnet2", "/run/socket_vmnet2/shared"},
		{linux(), JobOptions{Network: "host"}, "socket_vmnet2-host", "/run/socket_vmnet2/host"},
		{linux(), JobOptions{Name: "lab", Daemon: []string{"/run/socket_vmnet2/lab"}}, "socket_vmnet2-lab", "/run/socket_vmnet2/lab"},
		{linux(), JobOptions{Name: "lab", Daemon: []string{"/var/run/socket_vmnet.lab"}}, "socket_vmnet2-lab", "/run/socket_vmnet2/lab"},
		{linux(), JobOptions{Daemon: []string{"/run/socket_vmnet"}}, "socket_vmnet2", "/run/socket_vmnet2/shared"},
		{linux(), JobOptions{User: true}, "socket_vmnet2", "/run/user/1000/socket_vmnet2/shared"},
	} {
		tt.o.Installing = true
		j, err := NewJob(tt.sys, tt.o)
		require.NoError(t, err)
		assert.Equal(t, tt.name, j.Name)
		assert.Equal(t, tt.socket, j.Socket)
		if path := j.link(); path != j.Socket {
			assert.Equal(t, j.Socket, j.owned(path), "the way back")
		}
	}
}

// nasty are what shells, XML and templates find special.
var nasty = []string{
	"/a b", "/a%n", "/%%", "/$HOME", "/${HOME}", "/$$", "/a&b", "/<a>", `/"a"`, `/a'b'`, `/a\x20b`, `/\`, "/{{Name}}", "/{{", "/{{{", "/;", "/a;b", "/é", "/#a", "/--", "/]]>",
}

// TestEscapes: whatever is in a path or an option is the same in the program that is started. The readers are not ours.
func TestEscapes(t *testing.T) {
	j := &job{Name: "x", Title: "x", Program: "/opt/" + strings.Join(nasty, ""), LogDir: nasty[0] + nasty[6] + nasty[12], Args: append([]string{";", ""}, nasty...)}
	j.Socket = j.Args[len(j.Args)-1]
	want := j.Args

	for _, j.JobOptions = range []JobOptions{{}, {Activated: true}, {Activated: true, User: true}} {
		text := j.text("x.plist")
		var job struct {
			ProgramArguments []string
			StandardOutPath  string
			Sockets          map[string]struct{ SockPathName string }
		}
		_, err := plist.Unmarshal([]byte(text), &job)
		require.NoError(t, err)
		assert.Equal(t, append([]string{j.Program}, want...), job.ProgramArguments)
		assert.Equal(t, j.LogDir+"/stdout", job.StandardOutPath)
		assert.Equal(t, want, find.Command("x.plist", text, "")[1:])
		require.NoError(t, xml.Unmarshal([]byte(text), new(struct{})), "comments, too")
		if j.Activated {
			assert.Equal(t, j.Socket, job.Sockets[inherit.Stream].SockPathName)
		}
	}
}

// TestPackaged: what a package brought is asked for, started and stopped; its files are neither changed nor removed.
func TestPackaged(t *testing.T) {
	sys := linux()
	sys.UID, sys.Root, sys.Reach = 0, t.TempDir(), func(string) error { return nil }
	sys.Run = func(context.Context, string, ...string) ([]byte, error) {
		return []byte("ActiveState=active\nMainPID=7\nUnitFileState=disabled\nLoadState=loaded\n"), nil
	}
	const file = "/usr/lib/systemd/system/socket_vmnet2.service"
	unit, err := os.ReadFile(etc + "systemd/socket_vmnet2.service")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Dir(sys.at(file)), 0o755))
	require.NoError(t, os.WriteFile(sys.at(file), unit, 0o644))
	var out strings.Builder
	o := JobOptions{Out: &out, Warn: func(text string) { out.WriteString(text) }}
	j, err := NewJob(sys, o)
	require.NoError(t, err)
	code, err := j.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, exitRunning, code)
	assert.Contains(t, out.String(), "/var/run/socket_vmnet accepts connections")
	assert.Contains(t, out.String(), file)
	require.ErrorContains(t, j.Do(t.Context(), "uninstall"), `came with a package: "systemctl disable --now socket_vmnet2"`)
	o.Installing, o.Dry = true, true
	j, err = NewJob(sys, o)
	require.NoError(t, err)
	require.NoError(t, j.Do(t.Context(), "install"))
	assert.Contains(t, out.String(), "write /etc/systemd/system/socket_vmnet2.service")
	assert.NotContains(t, out.String(), "remove ")
}

// TestWithoutSystemd: there are its programs, and something else is process 1.
func TestWithoutSystemd(t *testing.T) {
	sys := linux()
	sys.UID, sys.Root, sys.Reach = 0, t.TempDir(), func(string) error { return errors.New("nothing") }
	sys.Run = func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("exit status 1") }
	for _, verb := range []string{"install", "uninstall", "start", "stop", "restart"} {
		var out strings.Builder
		o := JobOptions{Installing: verb == "install", Out: &out, Warn: func(text string) { out.WriteString(text) }}
		j, err := NewJob(sys, o)
		require.NoError(t, err)
		err = j.Do(t.Context(), verb)
		require.ErrorContains(t, err, "systemd cannot be asked: exit status 1: to do without a service, run the daemon yourself")
		_, err = j.Status(t.Context())
		require.EqualError(t, err, "systemd cannot be asked: exit status 1")
		if o.Dry = true; o.Installing {
			j, err = NewJob(sys, o)
			require.NoError(t, err)
			require.NoError(t, j.Do(t.Context(), verb))
			assert.Contains(t, out.String(), "systemd cannot be asked: ")
			assert.Contains(t, out.String(), "run systemctl enable socket_vmnet2.service")
		}
	}
	assert.Empty(t, filesBelow(t, sys.Root))
}
