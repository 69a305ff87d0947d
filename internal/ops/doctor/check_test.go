// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// of makes one check on s and returns what it says: severities, texts and fixes, and what was not checked.
func of(t *testing.T, s System, id string) string {
	t.Helper()
	var b strings.Builder
	for _, c := range checks() {
		if c.ID != id {
			continue
		}
		r := examine(t.Context(), s, []check{c})
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "%s: %s\n", f.Severity, f.Text)
			for _, fix := range f.Fix {
				fmt.Fprintf(&b, "  %s\n", fix)
			}
		}
		for _, s := range r.Skipped {
			fmt.Fprintf(&b, "skipped: %s: %s %v\n", s.Check, s.Why, s.Root)
		}
		return b.String()
	}
	require.Fail(t, "no such check", id)
	return ""
}

func TestFirewall(t *testing.T) {
	const on = "Firewall is enabled. (State = 1) \n"
	for name, tt := range map[string]struct {
		state, all, apps, signed string
		want                     string
	}{
		"off":                 {"Firewall is disabled. (State = 0)\n", "", "", "", "ok: the Application Firewall is off"},
		"blocks all":          {"Firewall is blocking all non-essential incoming connections. (State = 2)\n", "", "", "", "error: the Application Firewall blocks all"},
		"blocks all, asked":   {on, "Firewall is set to block all non-essential incoming connections\n", "", "", "error: the Application Firewall blocks all"},
		"blocks all, enabled": {on, "Block all ENABLED! \n", "", "", "error: the Application Firewall blocks all"},
		"listed":              {on, "Block all DISABLED! \n", "1 :  /usr/libexec/bootpd \n \t ( Allow incoming connections ) \n", "", "ok: the Application Firewall is on and lets bootpd"},
		"listed last":         {on, "", "1 : /usr/libexec/bootpd", "", "warning: "},
		"built-in off":        {on, "", "Total number of apps = 0\n", "Automatically allow built-in signed software DISABLED.\n", "warning: the Application Firewall is on, and bootpd is not among"},
		"not understood":      {"?\n", "", "", "", "skipped: firewall: the firewall's state is not understood: ? false"},
	} {
		t.Run(name, func(t *testing.T) {
			got := of(t, stage{tree: tree{}, answers: map[string]string{
				firewall + " --getglobalstate": tt.state, firewall + " --getblockall": tt.all, firewall + " --listapps": tt.apps, firewall + " --getallowsigned": tt.signed,
			}}.system(t), "firewall")
			assert.Contains(t, got, tt.want)
			if strings.HasPrefix(got, "error") || strings.HasPrefix(got, "warning") {
				assert.Contains(t, got, "sudo "+firewall)
			}
		})
	}
}

// TestMayNotAsk: a daemon that this user may not ask is not taken for one that cannot tell, whatever it was called as.
func TestMayNotAsk(t *testing.T) {
	s := stage{tree: tree{}, processes: "7 1 0 socket_vmnet /tmp/vmnet.sock\n8 1 0 socket_vmnet /tmp/old\n"}.system(t)
	s.Ask = func(_ context.Context, path string) (json.RawMessage, error) {
		if strings.HasSuffix(path, "/tmp/vmnet.sock.d/control") {
			return nil, &fs.PathError{Op: "dial", Path: path, Err: syscall.EACCES}
		}
		return nil, syscall.ENOENT
	}
	assert.Equal(t, "ok: the daemon at /tmp/old (process 8) is socket_vmnet: it can tell nothing of itself\n"+
		"skipped: daemons: the daemon at /tmp/vmnet.sock (process 7): this user may not ask it true\n", of(t, s, "daemons"))
}

func TestQEMU(t *testing.T) {
	for version, want := range map[string]string{
		"QEMU emulator version 7.1.90\n":     "notice: %s is QEMU 7.1.90: it has no -netdev stream",
		"QEMU emulator version 7.2.22 (D)\n": "notice: %s is QEMU 7.2.22: it has -netdev stream without reconnect",
		"QEMU emulator version 8.0.0\n":      "ok: %s is QEMU 8.0.0: machines reconnect with -netdev stream,...,reconnect=1",
		"QEMU emulator version 9.1.3\n":      "ok: %s is QEMU 9.1.3: machines reconnect with -netdev stream,...,reconnect=1",
		"QEMU emulator version 9.2.0\n":      "ok: %s is QEMU 9.2.0: machines reconnect with -netdev stream,...,reconnect-ms=",
		"QEMU emulator version 11.0-rc1\n":   "ok: %s is QEMU 11.0-rc1: machines reconnect with -netdev stream,...,reconnect-ms=",
		"something else\n":                   `notice: %s does not tell its version: "something else"`,
		"QEMU emulator version x.y\n":        "notice: %s does not tell its version",
	} {
		t.Run(version, func(t *testing.T) {
			const program = "/opt/homebrew/Cellar/qemu/bin/qemu-system-aarch64"
			got := of(t, stage{
				tree:    tree{program: "#!", "/opt/homebrew/bin/qemu-system-aarch64": "-> ../Cellar/qemu/bin/qemu-system-aarch64"},
				answers: map[string]string{program + " --version": version},
			}.system(t), "qemu")
			assert.Contains(t, got, fmt.Sprintf(want, program))
		})
	}
	t.Run("root runs nothing that others can change", func(t *testing.T) {
		s := stage{tree: tree{}}.system(t)
		dir := s.Root
		require.NoError(t, os.WriteFile(filepath.Join(dir, "qemu-system-aarch64"), nil, 0o777)) //nolint:gosec // that is the point
		require.NoError(t, os.Chmod(filepath.Join(dir, "qemu-system-aarch64"), 0o777))          //nolint:gosec // that is the point
		s.Root, s.User = "", account{}
		s.Env = func(string) string { return dir }
		s.Run = func(_ context.Context, name string, _ ...string) ([]byte, error) {
			assert.NotContains(t, name, dir)
			return nil, errors.New("no")
		}
		x := &exam{System: s, Inventory: &find.Inventory{}, ctx: t.Context()}
		checkQEMU(x)
		require.NotEmpty(t, x.skipped)
		assert.Contains(t, x.skipped[0].Why, "it is not run as root")
	})
}

func TestReach(t *testing.T) {
	embedded := func(forwards ...status.Forward) func(*status.Status) {
		return func(st *status.Status) {
			st.Network.Backend, st.Network.Usernet = "usernet", &status.Usernet{Forwards: forwards}
		}
	}
	for name, tt := range map[string]struct {
		ip     string
		goos   string
		err    error
		change func(*status.Status)
		want   string
	}{
		"refused":               {"192.168.105.9", "", syscall.ECONNREFUSED, nil, "ok: 192.168.105.9 answers"},
		"no route, elsewhere":   {"192.168.105.9", "linux", syscall.EHOSTUNREACH, nil, "warning: the guest 192.168.105.9 is there (client 3 of the daemon at /var/run/socket_vmnet), but cannot be reached"},
		"silent":                {"192.168.105.9", "", context.DeadlineExceeded, nil, "capture --client=3 --count=20 /var/run/socket_vmnet"},
		"unknown":               {"192.168.105.77", "", syscall.EHOSTUNREACH, nil, "warning: no daemon that can be asked has a guest with the address 192.168.105.77"},
		"embedded":              {"192.168.105.9", "", nil, embedded(), "--vmnet-forward=tcp:2222=192.168.105.9:22"},
		"embedded, with a port": {"192.168.105.9", "", nil, embedded(status.Forward{Proto: "tcp", Host: "127.0.0.1:80", Guest: "192.168.105.9:80"}), "ok: 192.168.105.9 is on the embedded network of the daemon at /var/run/socket_vmnet, which has no interface on this host: it is reached by forwarded ports only, here tcp 127.0.0.1:80"},
		"not asked for":         {"", "", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dial := map[string]error{}
			if tt.ip != "" {
				dial[tt.ip+":22"] = &fs.PathError{Op: "dial", Err: errors.Join(tt.err, errors.New("x"))}
			}
			got := of(t, stage{
				tree: oursTree, processes: oursProcess, goos: tt.goos, reach: tt.ip, dial: dial,
				daemons: map[string]status.Status{"/var/run/socket_vmnet.d/control": ours(tt.change)},
			}.system(t), "reach")
			if tt.want == "" {
				assert.NotContains(t, got, "reach")
			}
			assert.Contains(t, got, tt.want)
		})
	}
}

func TestAllows(t *testing.T) {
	ann := account{UID: 501, GID: 20, Groups: []int{20, 80}, Name: "ann"}
	for name, tt := range map[string]struct {
		mode     fs.FileMode
		uid, gid int
		user     account
		want     bool
	}{
		"owner":                    {0o200, 501, 0, ann, true},
		"owner, by group only":     {0o020, 501, 20, ann, false},
		"group":                    {0o020, 0, 80, ann, true},
		"group, by others only":    {0o002, 0, 80, ann, false},
		"main group":               {0o020, 0, 20, ann, true},
		"others":                   {0o002, 0, 0, ann, true},
		"no class":                 {0o770, 0, 0, ann, false},
		"root":                     {0, 501, 20, account{}, true},
		"the caller of sudo":       {0o770, 0, 0, account{UID: 501, GID: 20, Behind: true}, false},
		"a group without the user": {0o770, 0, 1, ann, false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, node{FileMode: tt.mode, uid: tt.uid, gid: tt.gid}.allows(tt.user, mayWrite))
		})
	}
}

func TestPermissionFix(t *testing.T) {
	p := &socket{Daemon: &find.Daemon{Socket: "/s"}, Status: &status.Status{}}
	group := func(gid int) string { return map[int]string{20: "staff", 77: "77", 80: "admin"}[gid] }
	for name, tt := range map[string]struct {
		goos string
		at   node
		want string
	}{
		"macOS, a group":  {"darwin", node{0o770, 0, 80}, "sudo dseditgroup -o edit -a ann -t user admin"},
		"Linux, a group":  {"linux", node{0o770, 0, 80}, "sudo usermod --append --groups admin ann"},
		"no name":         {"linux", node{0o770, 0, 77}, "--groups 77 ann"},
		"root's group":    {"darwin", node{0o770, 0, 0}, "--socket-group=admin"},
		"the owner alone": {"darwin", node{0o700, 0, 80}, "--socket-user=ann"},
		"Linux, own":      {"linux", node{0o700, 0, 80}, "--socket-group=kvm"},
		"Linux, staff":    {"linux", node{0o770, 0, 20}, "--socket-group=kvm\n    sudo usermod --append --groups kvm ann"},
	} {
		t.Run(name, func(t *testing.T) {
			x := &exam{System: System{System: find.System{GOOS: tt.goos}, User: account{UID: 501, GID: 20, Name: "ann"}, Group: group}}
			assert.Contains(t, strings.Join(x.socketFix(p, tt.at), "\n"), tt.want)
		})
	}
}

// ofOurs is a program of this module, so it counts as ours.
func ofOurs(t *testing.T) []byte {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self)
	require.NoError(t, err)
	return program
}

// TestSignature has codesign say what it says of programs that are signed in several ways.
func TestSignature(t *testing.T) {
	own := ofOurs(t)
	const program, list = "/opt/socket_vmnet/bin/socket_vmnet", "<plist><dict><key>com.apple.security.virtualization</key>"
	for name, tt := range map[string]struct {
		list, complaint string
		version         string
		want            string
	}{
		"as released":        {list + "<true/></dict></plist>", "", "26.1", "ok: " + program + " is signed, with the entitlement com.apple.security.virtualization"},
		"without, macOS 26":  {"", "", "26.1", "warning: " + program + " is signed without the entitlement"},
		"without, macOS 15":  {"", "", "15.3", "notice: " + program + " is signed without the entitlement"},
		"other entitlements": {list + "<false/><key>x</key><true/></dict></plist>", "", "26.1", "warning: " + program + " is signed without"},
		"not signed":         {"", "code object is not signed at all", "26.1", "warning: " + program + " is not signed"},
		"changed since":      {"", "invalid signature (code or signature have been modified)", "26.1", "error: " + program + " was changed after it was signed (exit status 1: " + program + ": invalid"},
		"it does not run":    {"", "no such file or directory", "26.1", "skipped: signature: the signature of " + program + ": exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := stage{tree: tree{program: "#!"}, answers: map[string]string{"/usr/bin/sw_vers -productVersion": tt.version}}.system(t)
			run := s.Run
			s.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
				switch {
				case name != codesign:
					return run(ctx, name, args...)
				case tt.complaint != "":
					return nil, errors.New("exit status 1: " + program + ": " + tt.complaint)
				}
				return []byte(tt.list), nil
			}
			require.NoError(t, os.WriteFile(filepath.Join(s.Root, program), own, 0o755))
			assert.Contains(t, of(t, s, "signature"), tt.want)
		})
	}
}

func TestJobs(t *testing.T) {
	agent := tree{
		"/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet":                  cProgram("1.1.6"),
		"/Users/ann/Library/LaunchAgents/homebrew.mxcl.socket_vmnet.plist": job("homebrew.mxcl.socket_vmnet", "/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet", "/opt/homebrew/var/run/socket_vmnet"),
	}
	daemon := func(label string) tree {
		return tree{"/opt/local/bin/socket_vmnet": cProgram("1"), "/Library/LaunchDaemons/" + label + ".plist": job(label, "/opt/local/bin/socket_vmnet", "/var/run/socket_vmnet")}
	}
	for name, tt := range map[string]struct {
		tree    tree
		answers map[string]string
		want    []string
	}{
		"brew without sudo on macOS 15": {agent, macOS15, []string{"error: the job homebrew.mxcl.socket_vmnet", "brew services is called without sudo", "    /opt/homebrew/bin/brew services stop socket_vmnet"}},
		"brew without sudo on macOS 26": {agent, map[string]string{"/usr/bin/sw_vers -productVersion": "26.0", fmt.Sprintf("launchctl print gui/%d/homebrew.mxcl.socket_vmnet", os.Getuid()): "x = {\n\tstate = running\n}\n"}, []string{"ok: the job homebrew.mxcl.socket_vmnet"}},
		"a file and nothing else":       {daemon("org.macports.socket_vmnet"), macOS15, []string{"notice: the job org.macports.socket_vmnet", "is not loaded", "launchctl bootstrap system /Library/LaunchDaemons/org.macports.socket_vmnet.plist"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := of(t, stage{tree: tt.tree, answers: tt.answers}.system(t), "jobs")
			for _, want := range tt.want {
				assert.Contains(t, got, want)
			}
		})
	}
}

func TestMaskedPrefix(t *testing.T) {
	for name, tt := range map[string]struct{ address, mask, want string }{
		"a /24": {"192.168.105.7", "255.255.255.0", "192.168.105.0/24"},
		"a /20": {"10.1.255.0", "255.255.240.0", "10.1.240.0/20"},
		"none":  {"10.0.0.0", "0.0.0.0", ""},
		"text":  {"x", "255.0.0.0", ""},
		"IPv6":  {"fe80::1", "255.0.0.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, ok := maskedPrefix(tt.address, tt.mask)
			assert.Equal(t, tt.want != "", ok)
			if ok {
				assert.Equal(t, netip.MustParsePrefix(tt.want), p)
			}
		})
	}
}

// TestGuardedDirectories: vmnet fails on macOS 26 for programs there.
func TestGuardedDirectories(t *testing.T) {
	program := ofOurs(t)
	for _, tt := range []struct {
		path, version string
		warns         bool
	}{
		{"/Users/ann/Documents/vm/socket_vmnet2", "26.1", true}, {"/Users/ann/Documents/vm/socket_vmnet2", "15.3", false}, {"/Users/ann/bin/socket_vmnet2", "26.1", false},
	} {
		s := stage{
			tree:    tree{tt.path: "#!", "/Library/LaunchDaemons/vm.socket_vmnet.plist": job("vm.socket_vmnet", tt.path, "/var/run/socket_vmnet")},
			answers: answers(map[string]string{"/usr/bin/sw_vers -productVersion": tt.version}),
		}.system(t)
		require.NoError(t, os.WriteFile(filepath.Join(s.Root, tt.path), program, 0o755))
		assert.Equal(t, tt.warns, strings.Contains(of(t, s, "macos"), "warning: "+tt.path+": macOS "+tt.version+" lets no program start vmnet"), "%v", tt)
	}
}

// TestUnknownRoutesAreNotFree: without the routes nothing can be said to be free.
func TestUnknownRoutesAreNotFree(t *testing.T) {
	s := stage{tree: oursTree}.system(t)
	read := s.Table
	assert.Contains(t, of(t, s, "overlap"), "ok: nothing else on this host")
	s.Table = func() (*freenet.Table, error) {
		table, _ := read()
		return table, errors.New("the routing table cannot be read")
	}
	got := of(t, s, "overlap")
	assert.NotContains(t, got, "nothing else")
	assert.Contains(t, got, "the routing table cannot be read")
}
