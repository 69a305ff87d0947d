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

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
)

// nobody is whom the program runs as where these tests are root's: root would use /run, which is not theirs alone.
const nobody = 65534

// A tryRig is where these tests run the program: with a runtime directory of its own.
type tryRig struct {
	t       *testing.T
	xdg     string
	program string
	asRoot  bool
}

func newTryRig(t *testing.T) *tryRig {
	t.Helper()
	home := shortDir(t)
	r := &tryRig{t: t, xdg: filepath.Join(home, "x"), program: filepath.Join(home, "socket_vmnet2")}
	require.NoError(t, os.Link(filepath.Join(binaries, "socket_vmnet2"), r.program))
	require.NoError(t, os.Mkdir(r.xdg, 0o700))
	r.give(r.xdg)
	return r
}

// give makes path the user's that the program runs as.
func (r *tryRig) give(path string) {
	r.t.Helper()
	if os.Geteuid() == 0 && !r.asRoot {
		require.NoError(r.t, os.Chown(path, nobody, nobody))
	}
}

// dir makes a directory for --dir, beside the runtime directory.
func (r *tryRig) dir(name string) string {
	r.t.Helper()
	path := filepath.Join(filepath.Dir(r.xdg), name)
	require.NoError(r.t, os.Mkdir(path, 0o700))
	r.give(path)
	return path
}

// command is the program with its arguments.
func (r *tryRig) command(args ...string) *exec.Cmd {
	c := exec.Command(r.program, args...)
	c.Dir = "/"
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+r.xdg)
	if os.Geteuid() == 0 && !r.asRoot {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
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
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.Fail(r.t, "it was not refused", "%v\n%s", args, p.stdout)
	}
	assert.Equal(r.t, 1, p.ProcessState.ExitCode(), "%v", args)
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
	require.Equal(r.t, "ready", v.Event)
	p.sock = v.Socket
	return v
}

// events are what p has told so far.
func events(t *testing.T, p *process) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(p.stdout.String()) {
		if !strings.HasSuffix(line, "\n") {
			break // the rest of it is on its way
		}
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v), "%s", line)
		list = append(list, v)
	}
	return list
}

// event waits for the first event of this name.
func event(t *testing.T, p *process, name string) (found map[string]any) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, v := range events(t, p) {
			if v["event"] == name {
				found = v
				return true
			}
		}
		return false
	}, patience, 5*time.Millisecond, "no %q in %s", name, p.stdout)
	return found
}

// end ends p by a signal, and checks that nothing is left.
func (r *tryRig) end(p *process, s os.Signal) {
	r.t.Helper()
	code, _ := p.signal(r.t, s)
	assert.Zero(r.t, code, "%s", p.stderr)
}

// empty checks that nothing is left in the runtime directory.
func (r *tryRig) empty() {
	r.t.Helper()
	assert.Empty(r.t, tree(r.t, r.xdg))
}

// tree is all that is below dir.
func tree(t *testing.T, dir string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if path != dir {
			paths = append(paths, path+" "+d.Type().String())
		}
		return err
	}))
	return paths
}

func TestTryGuest(t *testing.T) {
	r := newTryRig(t)
	p := r.try("--json")
	v := r.ready(p)
	assert.Equal(t, p.Process.Pid, v.PID)
	assert.Equal(t, "usernet", v.Backend)
	assert.Equal(t, "shared", v.Mode)
	assert.Equal(t, r.xdg+"/socket_vmnet2-try/1/sock", v.Socket)
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
	assert.EqualValues(t, 1, event(t, p, "connected")["client"])
	address := event(t, p, "address")
	assert.Equal(t, lease.Addr.Addr().String(), address["ip"])
	assert.Equal(t, g.MAC().String(), address["mac"])
	assert.Equal(t, "trial", address["hostname"])
	g.Close()
	gone := event(t, p, "gone")
	assert.EqualValues(t, 1, gone["client"])
	assert.Equal(t, g.MAC().String(), gone["mac"])
	assert.NotEmpty(t, gone["reason"])
	assert.Greater(t, gone["frames_to_net"], 2.0)

	// What is tried is not upgraded, and goes on.
	out, err := r.command("upgrade", v.Socket).CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(out), "not upgraded")
	p.ready(t)

	r.end(p, syscall.SIGINT)
	list := events(t, p)
	assert.Equal(t, map[string]any{"event": "stopped"}, list[len(list)-1])
	r.empty()
}

func TestTrySignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			r := newTryRig(t)
			dir := filepath.Join(r.dir("with a space"), "and, a comma")
			p := r.try("--dir=" + dir)
			require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "Ctrl-C") }, patience, 5*time.Millisecond, "%s", p.stderr)
			text := p.stdout.String()
			assert.Contains(t, text, "The network is ready: "+dir+"/sock on usernet\n")
			assert.Contains(t, text, "    networks:\n    - socket: \""+dir+"/sock\"\n")
			assert.Contains(t, text, "  undo: limactl delete --force socket-vmnet2-try\n")
			require.NoError(t, visit(dir+"/sock"))
			require.Eventually(t, func() bool {
				return strings.Contains(p.stdout.String(), "\nclient 1 has connected\n") && strings.Contains(p.stdout.String(), "\nclient 1 has gone after ")
			}, patience, 5*time.Millisecond, "%s", p.stdout)
			r.end(p, s)
			assert.True(t, strings.HasSuffix(p.stdout.String(), "\nThe network has ended.\n"), "%s", p.stdout)
			assert.NoDirExists(t, dir)
			r.empty()
		})
	}
}

// TestTryKilled: the next run removes what a killed one has left, and follows no link there.
func TestTryKilled(t *testing.T) {
	r := newTryRig(t)
	precious := r.dir("precious")
	require.NoError(t, os.WriteFile(precious+"/file", []byte("mine"), 0o644))
	p := r.try("--json")
	v := r.ready(p)
	code, _ := p.signal(t, syscall.SIGKILL)
	assert.NotZero(t, code)
	left := filepath.Dir(v.Socket)
	require.NoError(t, os.Symlink(precious, left+"/link"))
	require.NoError(t, os.Symlink(precious, left+"/state/link"))
	require.NoError(t, os.RemoveAll(left+"/sock.d"))
	require.NoError(t, os.Symlink(precious, left+"/sock.d"))

	p = r.try("--json")
	again := r.ready(p)
	assert.Equal(t, v.Subnet, again.Subnet, "free again")
	assert.Equal(t, v.Socket, again.Socket)
	r.end(p, syscall.SIGTERM)
	r.empty()
	b, err := os.ReadFile(precious + "/file")
	require.NoError(t, err)
	assert.Equal(t, "mine", string(b))
}

// TestTryDirRefused: what --dir must not be, each with its reason, and nothing is changed.
func TestTryDirRefused(t *testing.T) {
	r := newTryRig(t)
	home := filepath.Dir(r.xdg)
	full, open, closed := r.dir("full"), r.dir("open"), r.dir("closed")
	require.NoError(t, os.WriteFile(full+"/x", nil, 0o644))
	require.NoError(t, os.Symlink(full, home+"/link"))
	require.NoError(t, os.Symlink(home+"/nowhere", home+"/dangling"))
	require.NoError(t, os.Chmod(open, 0o777))
	require.NoError(t, os.Chmod(closed, 0o555))
	require.NoError(t, syscall.Mkfifo(home+"/fifo", 0o666))
	lock := r.dir("lock")
	require.NoError(t, os.Mkdir(lock+"/socket_vmnet2-try.lock", 0o755))
	before := tree(t, home)
	tests := []struct{ name, dir, want string }{
		{"empty", "", "--dir is empty"},
		{"file", full + "/x", "is not a directory"},
		{"fifo", home + "/fifo", "is not a directory"},
		{"not empty", full, `is not empty, there is "x" in it`},
		{"link", home + "/link", "is a symbolic link"},
		{"dangling link", home + "/dangling", "is a symbolic link"},
		{"open to others", open, "others may write in "},
		{"root's", "/etc", "belongs to user 0"},
		{"no parent", home + "/no/where", "No such file or directory"},
		{"below a file", full + "/x/y", "Not a directory"},
		{"read-only", closed + "/x", "Permission denied"},
		{"too long", "/" + strings.Repeat("x", 95), "is too long: the path of a socket in it has "},
		{"a lock of another kind", lock, "is a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := r.refused("--dir=" + tt.dir)
			assert.Contains(t, strings.ToLower(stderr), strings.ToLower(tt.want))
			assert.True(t, strings.HasPrefix(stderr, "ERROR| "), "%s", stderr)
			assert.Empty(t, stdout)
			assert.Equal(t, before, tree(t, home))
		})
	}
}

// TestTryRefused: bad command lines change nothing and say what is wrong.
func TestTryRefused(t *testing.T) {
	r := newTryRig(t)
	tests := []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"/tmp/s"}, `try takes options only, not "/tmp/s"`, true},
		{[]string{"--nope"}, "unknown option --nope", true},
		{[]string{"--dir"}, "option --dir needs an argument", true},
		{[]string{"--json=x"}, "option --json takes no argument", true},
		{[]string{"--pidfile=/x"}, "unknown option --pidfile", true},
		{[]string{"--vmnet-mode=x"}, `unknown vmnet mode "x"`, false},
		{[]string{"--vmnet-gateway=x"}, `invalid address "x"`, false},
		{[]string{"--vmnet-mask=255.0.255.0"}, "is no netmask", false},
		{[]string{"--vmnet-dhcp-end=192.168.7.9"}, "--vmnet-gateway=IP is needed", false},
		{[]string{"--vmnet-reserve=52:54:00:00:00:01=192.168.7.9"}, "--vmnet-gateway=IP is needed", false},
		{[]string{"--vmnet-forward=tcp:80=192.168.7.9:80"}, "--vmnet-gateway=IP is needed", false},
		{[]string{"--vmnet-mode=bridged"}, "--vmnet-interface", false},
		{[]string{"--vmnet-mode=bridged", "--vmnet-interface=eth0", "--backend=usernet"}, "bridged mode needs macOS vmnet", false},
		{[]string{"--socket-group="}, "--socket-group is empty", false},
		{[]string{"--socket-group=no such group"}, `unknown group name "no such group"`, false},
		{[]string{"--socket-user=no such user"}, `unknown user name "no such user"`, false},
		{[]string{"--socket-user=root"}, "needs root", false},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			stdout, stderr := r.refused(tt.args...)
			assert.Contains(t, strings.ToLower(stderr), strings.ToLower(tt.want))
			assert.Equal(t, tt.usage, strings.HasPrefix(stdout, "Usage: socket_vmnet2 try "), "%s", stdout)
			r.empty()
		})
	}
	out, err := r.command("try", "--help").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "\n--dir=DIR                              have")
	assert.Contains(t, string(out), "\n--vmnet-gateway=IP")
	r.empty()
}

// TestTryAsRoot: others than root reach the socket as its owner says, and root heeds no environment.
func TestTryAsRoot(t *testing.T) {
	needRoot(t)
	r := newTryRig(t)
	r.asRoot = true
	dir := filepath.Join(filepath.Dir(r.xdg), "root")
	p := r.try("--json", "--dir="+dir, "--socket-user=nobody")
	v := r.ready(p)
	assert.Equal(t, dir+"/sock", v.Socket)
	assert.Equal(t, "nobody", v.User)
	info, err := os.Lstat(v.Socket)
	require.NoError(t, err)
	assert.Equal(t, nobody, ownerOf(info))
	info, err = os.Lstat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o711), info.Mode().Perm())
	r.empty()
	r.end(p, syscall.SIGTERM)
	assert.NoDirExists(t, dir)
}

// TestTryDocs: what is printed for scripts is in the documentation, by name.
func TestTryDocs(t *testing.T) {
	b, err := os.ReadFile("../../docs/try.md")
	require.NoError(t, err)
	doc := string(b)
	var fields map[string]any
	text := jsonText(tryReady{DHCPEnd: "x", Subnet: "x", Gateway: "x", Dgram: "x", Client: "x", Lines: []tryLine{{For: "x", What: "x", Use: "x", Undo: "x", Note: "x"}}})
	require.NoError(t, json.Unmarshal([]byte(text), &fields))
	names := []string{"ready", "connected", "address", "gone", "lost", "stopped"}
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
		if name != "event" {
			assert.Contains(t, doc, "`"+name+"`")
		}
	}
	assert.Contains(t, doc, "192.168.107.0/24")
}
