// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
)

// A tryRig is where these tests run the program: as root where they are root's.
type tryRig struct {
	t       *testing.T
	home    string
	program string
}

func newTryRig(t *testing.T) *tryRig {
	t.Helper()
	r := &tryRig{t: t, home: shortDir(t)}
	r.program = filepath.Join(r.home, "socket_vmnet2")
	require.NoError(t, os.Link(filepath.Join(binaries, "socket_vmnet2"), r.program))
	return r
}

// command is the program with its arguments.
func (r *tryRig) command(args ...string) *exec.Cmd {
	c := exec.Command(r.program, args...)
	c.Dir = "/"
	return c
}

// try runs the subcommand and does not wait for it.
func (r *tryRig) try(args ...string) *process {
	r.t.Helper()
	if runtime.GOOS == "darwin" {
		args = append([]string{"--backend=usernet"}, args...)
	}
	return runDaemon(r.t, r.command(append([]string{"try"}, args...)...), "")
}

// refused runs the subcommand, which must not start, and returns its output.
func (r *tryRig) refused(args ...string) (stdout, stderr string) {
	r.t.Helper()
	p := r.try(args...)
	p.exits(r.t, 1)
	return p.stdout.String(), p.stderr.String()
}

// ready waits until p, which was started with --json, tells that it is ready.
func (r *tryRig) ready(p *process) (v tryReady) {
	r.t.Helper()
	var line string
	require.Eventually(r.t, func() (ok bool) {
		line, _, ok = strings.Cut(p.stdout.String(), "\n")
		return ok || !p.alive()
	}, patience, 5*time.Millisecond, "%s", p.stderr)
	require.NoError(r.t, json.Unmarshal([]byte(line), &v), "%s\n%s", line, p.stderr)
	p.sock = v.Socket
	return v
}

func TestTryGuest(t *testing.T) {
	r := newTryRig(t)
	p := r.try("--json")
	v := r.ready(p)
	assert.Equal(t, p.Process.Pid, v.PID)
	assert.Equal(t, "usernet", v.Backend)
	assert.Equal(t, "shared", v.Mode)
	dir := filepath.Dir(v.Socket)
	assert.Regexp(t, `^/tmp/socket_vmnet2-try-\d+$`, dir)
	assert.Equal(t, v.Socket+".d/dgram/sock", v.Dgram)
	info, err := os.Lstat(v.Dgram)
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket, info.Mode().Type())

	subnet := netip.MustParsePrefix(v.Subnet)
	assert.Equal(t, 24, subnet.Bits())
	assert.Equal(t, subnet.Addr().Next().String(), v.Gateway)
	table, err := freenet.System()
	require.NoError(t, err)
	assert.Empty(t, table.Overlaps(subnet))

	g, err := fakeguest.Dial(v.Socket, fakeguest.Options{Name: "trial", Timeout: patience})
	require.NoError(t, err)
	lease, err := g.Configure()
	require.NoError(t, err)
	assert.True(t, subnet.Contains(lease.Addr.Addr()), lease.Addr.String())
	_, err = g.Ping(netip.MustParseAddr(v.Gateway), 3)
	require.NoError(t, err)
	g.Close()
	for _, event := range []string{"client connected", "client address", "client gone"} {
		require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), event) }, patience, 5*time.Millisecond, "%s", event)
	}
	out, err := r.command("status").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), v.Socket, "found among this machine's daemons")

	// What is tried is not upgraded, and goes on.
	out, err = r.command("upgrade", v.Socket).CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "not upgraded")
	p.ready(t)

	p.interrupt(t)
	assert.NoDirExists(t, dir)
}

func TestTrySignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			r := newTryRig(t)
			dir := filepath.Join(r.home, "and, a comma")
			p := r.try("--dir=" + dir)
			require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "Ctrl-C") }, patience, 5*time.Millisecond, "%s", p.stderr)
			text := p.stdout.String()
			assert.Contains(t, text, "The network is ready: "+dir+"/sock on usernet\n")
			assert.Contains(t, text, "    networks:\n    - socket: \""+dir+"/sock\"\n")
			assert.Contains(t, text, "  undo: limactl delete --force socket-vmnet2-try\n")
			code, _ := p.signal(t, s)
			assert.Zero(t, code, "%s", p.stderr)
			assert.NoDirExists(t, dir)
		})
	}
}

// TestTryDirRefused: what --dir must not be, each with its reason, and nothing is changed.
func TestTryDirRefused(t *testing.T) {
	r := newTryRig(t)
	full := filepath.Join(r.home, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	require.NoError(t, os.WriteFile(full+"/x", nil, 0o644))
	require.NoError(t, os.Symlink(r.home+"/nowhere", r.home+"/dangling"))
	before := listing(t, r.home)
	tests := []struct{ name, dir, want string }{
		{"empty", "", "--dir is empty"},
		{"directory", full, "File exists"},
		{"no parent", r.home + "/no/where", "No such file or directory"},
		{"too long", "/" + strings.Repeat("x", 95), "is too long: the path of a socket in it has "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := r.refused("--dir=" + tt.dir)
			assert.Contains(t, strings.ToLower(stderr), strings.ToLower(tt.want))
			assert.True(t, strings.HasPrefix(stderr, "ERROR| "), "%s", stderr)
			assert.Empty(t, stdout)
			assert.Equal(t, before, listing(t, r.home))
		})
	}
}

// TestTryRefused: bad command lines change nothing and say what is wrong.
func TestTryRefused(t *testing.T) {
	r := newTryRig(t)
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--vmnet-dhcp-end=192.168.7.9"}, "--vmnet-gateway=IP is needed"},
		{[]string{"--vmnet-reserve=52:54:00:00:00:01=192.168.7.9"}, "--vmnet-gateway=IP is needed"},
		{[]string{"--vmnet-forward=tcp:80=192.168.7.9:80"}, "--vmnet-gateway=IP is needed"},
		{[]string{"--vmnet-mode=bridged", "--vmnet-interface=eth0", "--backend=usernet"}, "bridged mode needs macOS vmnet"},
		{[]string{"--socket-group=no such group"}, `unknown group name "no such group"`},
		{[]string{"--socket-user=no such user"}, `unknown user name "no such user"`},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			stdout, stderr := r.refused(tt.args...)
			assert.Contains(t, strings.ToLower(stderr), strings.ToLower(tt.want))
			assert.Empty(t, stdout)
		})
	}
}

// TestTryDocs: what is printed for scripts is in the documentation, by name.
func TestTryDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/try.md")
	require.NoError(t, err)
	doc := string(b)
	var fields map[string]any
	text := jsonString(tryReady{DHCPEnd: "x", Subnet: "x", Gateway: "x", Dgram: "x", Client: "x", Lines: []tryLine{{For: "x", What: "x", Use: "x", Undo: "x", Note: "x"}}})
	require.NoError(t, json.Unmarshal([]byte(text), &fields))
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	for name := range fields["lines"].([]any)[0].(map[string]any) {
		names = append(names, name)
	}
	for _, l := range tryLines(tryReady{Dgram: "x"}, "darwin", netip.Addr{}, nil) {
		names = append(names, l.For)
	}
	for _, name := range names {
		assert.Contains(t, doc, "`"+name+"`")
	}
	assert.Contains(t, doc, "192.168.107.0/24")
}
