// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// lima is a Mac with Lima's network and socket_vmnet, which runs.
var lima = tree{
	"/opt/socket_vmnet/bin/socket_vmnet":            cProgram("v1.2.2"),
	"/opt/homebrew/bin/qemu-system-aarch64":         "#!",
	"/Users/ann/.lima/_config/networks.yaml":        ofLima("networks.yaml"),
	"/private/etc/sudoers.d/lima":                   ofLima("sudoers"),
	"/private/var/run/lima/socket_vmnet.shared":     "served",
	"/private/var/run/lima/shared_socket_vmnet.pid": "4242",
	"/etc":                         "-> private/etc",
	"/var":                         "-> private/var",
	"/private/var/db/dhcpd_leases": lease("192.168.105.2", "52:55:55:1:2:3") + lease("192.168.105.3", "52:55:55:1:2:4"),
	"/System/Library/LaunchDaemons/bootps.plist":         "x",
	"/Library/LaunchDaemons/com.example.unrelated.plist": job("com.example.unrelated", "/bin/true"),
}

const limaDaemon = "  4242     1     0 " + limaArgs + "\n"

var home = []string{"lo0 127.0.0.1/8", "en0 192.168.1.10/24"}

// ours is a daemon of ours on macOS 26.
func ours(change func(*status.Status)) status.Status {
	st := status.Status{
		Format: status.Format,
		Daemon: status.Daemon{
			Version: "v0.0.0-old", PID: 77, Program: "/opt/socket_vmnet/bin/socket_vmnet2", Socket: "/var/run/socket_vmnet",
			RuntimeDir: "/var/run/socket_vmnet.d", StateFile: "/var/db/socket_vmnet2/53ca45", MaxClients: 256,
		},
		Network: status.Network{
			State: status.NetworkRunning, Backend: "vmnet", Mode: "shared",
			Subnet: netip.MustParsePrefix("192.168.105.0/24"), Gateway: netip.MustParseAddr("192.168.105.1"),
		},
		Clients: []status.Client{{ID: 3, Name: "web", Transport: status.Stream, IP: netip.MustParseAddr("192.168.105.9")}},
	}
	if change != nil {
		change(&st)
	}
	return st
}

var oursTree = tree{
	"/opt/socket_vmnet/bin/socket_vmnet": cProgram("v1.2.2"),
	"/private/var/run/socket_vmnet":      "served",
	"/private/var/run/socket_vmnet.d":    "dir",
	"/private/var/db/socket_vmnet2":      "dir",
	"/var":                               "-> private/var",
	"/etc":                               "-> private/etc",
	"/private/etc/bootpd.plist": plistOf("<key>Subnets</key><array><dict><key>_creator</key><string>com.apple.NetworkSharing</string>" +
		"<key>net_address</key><string>192.168.105.0</string><key>net_mask</key><string>255.255.255.0</string><key>name</key><string>192.168.105/24</string></dict></array>"),
}

const oursProcess = "77 1 0 /opt/socket_vmnet/bin/socket_vmnet --vmnet-gateway=192.168.105.1 /var/run/socket_vmnet\n"

// manyLeasesText are more than a subnet should have, and one address that two have.
func manyLeasesText() string {
	var b strings.Builder
	for i := range 230 {
		b.WriteString(lease(fmt.Sprintf("192.168.105.%d", i+2), fmt.Sprintf("52:55:55:0:0:%x", i)))
	}
	return b.String() + lease("192.168.105.2", "52:55:55:9:9:9") + "{\n\tip_address=192.168.64.2\n\thw_address=1,2:3\n\tlease=0x5\n}\n"
}

// stages are whole systems, and what the command ends with there.
var stages = map[string]struct {
	stage
	code int
}{
	"empty": {stage{tree: tree{"/Users/ann": "dir"}, answers: macOS15}, 0},
	"lima":  {stage{tree: lima, answers: macOS15, processes: limaDaemon, addresses: append(home, "bridge100 192.168.105.1/24"), routes: []string{"bridge100 192.168.105.0/24"}}, 0},
	"daemon": {stage{
		tree: oursTree, processes: oursProcess, addresses: append(home, "bridge100 192.168.105.1/24"),
		answers: answers(map[string]string{"/usr/bin/sw_vers -productVersion": "26.1\n"}),
		daemons: map[string]status.Status{"/var/run/socket_vmnet.d/control": ours(func(st *status.Status) {
			st.Daemon.Version = "v0.0.0-new"
			st.Health = []status.Problem{{
				Code: status.NoDHCPAnswer, Severity: status.Error, Text: "the guest of client 3 (web) has asked for an address for 12 s, and there is no answer",
				Fix: []string{"let bootpd answer:", "    sudo launchctl kickstart -k system/com.apple.bootpd"},
			}}
		})},
	}, 3},
	"two-installs": {stage{
		tree: oursTree.with(tree{
			"/opt/homebrew/Cellar/socket_vmnet/1.1.6/bin/socket_vmnet": cProgram("1.1.6"),
			"/opt/homebrew/opt/socket_vmnet":                           "-> ../Cellar/socket_vmnet/1.1.6",
			"/Library/LaunchDaemons/homebrew.mxcl.socket_vmnet.plist":  job("homebrew.mxcl.socket_vmnet", "/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"),
			"/Library/LaunchDaemons/io.github.socket-vmnet2.plist":     job("io.github.socket-vmnet2.shared", "/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"),
		}),
		answers: answers(map[string]string{
			"launchctl print system/homebrew.mxcl.socket_vmnet":     "system/homebrew.mxcl.socket_vmnet = {\n\tstate = spawn scheduled\n}\n",
			"launchctl print system/io.github.socket-vmnet2.shared": "system/io.github.socket-vmnet2.shared = {\n\tstate = running\n}\n",
		}),
		processes: oursProcess, addresses: home,
	}, 3},
	"writable-prefix": {stage{
		tree: lima, answers: macOS15, processes: limaDaemon, addresses: home, mode: map[string]fs.FileMode{"/opt/socket_vmnet/bin": 0o777},
	}, 3},
	"stale": {stage{
		tree: lima.with(tree{
			"/private/var/run/lima/socket_vmnet.shared": "socket", "/private/var/run/socket_vmnet": "socket",
			"/private/var/run/socket_vmnet.pid": "1", "/private/var/run/lima/shared_socket_vmnet.pid": "99999999",
		}),
		answers: macOS15, processes: "1 0 0 /sbin/launchd\n", addresses: home,
	}, 2},
	"firewall": {stage{
		tree: lima.with(tree{"/private/var/db/dhcpd_leases": manyLeasesText(), "/private/etc/bootpd.plist": "<plist"}),
		answers: answers(map[string]string{
			"/usr/bin/sw_vers -productVersion":                "14.7.1\n",
			firewall + " --listapps":                          "Total number of apps = 2\n1 : /usr/libexec/bootpd\n             (Block incoming connections)\n2 : /usr/bin/ruby\n             (Allow incoming connections)\n",
			firewall + " --getallowsigned":                    "Automatically allow signed built-in software ENABLED \n",
			"/bin/launchctl print-disabled system":            "disabled services = {\n\t\"com.apple.bootpd\" => true\n}\n",
			"/opt/homebrew/bin/qemu-system-aarch64 --version": "QEMU emulator version 7.1.0\n",
		}), processes: limaDaemon, addresses: append(home, "bridge100 192.168.105.1/24"),
	}, 3},
	"overlap": {stage{
		tree: oursTree.with(tree{
			"/private/var/run/second": "served", "/private/var/run/second.d": "dir",
			"/private/etc/bootpd.plist": plistOf("<key>Subnets</key><array><dict><key>net_address</key><string>192.168.105.128</string><key>net_mask</key><string>255.255.255.128</string><key>name</key><string>by hand</string></dict></array>"),
		}),
		answers:   answers(map[string]string{"/usr/bin/sw_vers -productVersion": "26.1\n"}),
		processes: oursProcess + "78 1 0 /opt/socket_vmnet/bin/socket_vmnet --vmnet-gateway=192.168.105.1 /var/run/second\n",
		addresses: append(home, "en7 192.168.105.20/24", "bridge100 192.168.105.1/24"), routes: []string{"utun4 192.168.0.0/16"},
		daemons: map[string]status.Status{
			"/var/run/socket_vmnet.d/control": ours(nil),
			"/var/run/second.d/control": ours(func(st *status.Status) {
				st.Daemon.PID, st.Daemon.Socket, st.Daemon.StateFile, st.Daemon.RuntimeDir = 78, "/var/run/second", "", "/var/run/second.d"
			}),
		},
		mode: map[string]fs.FileMode{"/private/var/run/second.d": 0o777},
	}, 3},
	"reach": {stage{
		tree: oursTree, processes: oursProcess, addresses: home, reach: "192.168.105.9",
		dial:    map[string]error{"192.168.105.9:22": &os.SyscallError{Syscall: "connect", Err: syscall.EHOSTUNREACH}},
		answers: answers(map[string]string{"/usr/bin/sw_vers -productVersion": "26.1\n"}),
		daemons: map[string]status.Status{"/var/run/socket_vmnet.d/control": ours(nil)},
	}, 3},
	"traps": {stage{ // of macOS, with a network in host mode
		tree: oursTree.with(tree{
			"/Library/LaunchDaemons/io.github.socket-vmnet2.host.plist": job("io.github.socket-vmnet2.host", "/Users/ann/Documents/socket_vmnet2", "--vmnet-mode=host", "/var/run/socket_vmnet"),
			"/Users/ann/Documents/socket_vmnet2":                        "#!",
			"/private" + bootpdLease:                                    duidLease("192.168.105.4"),
			natPrefs:                                                    plistOf("<key>NAT</key><dict><key>Enabled</key><integer>1</integer></dict>"),
		}),
		processes: oursProcess + "90 1 0 /Library/Application Support/com.canonical.multipass/bin/multipassd --verbosity debug\n" +
			"91 1 501 qemu-system-aarch64 -netdev vmnet-shared,id=n0\n78 1 0 /opt/socket_vmnet/bin/socket_vmnet rel.sock\n",
		addresses: append(home, "bridge100 192.168.105.1/24"),
		answers: answers(map[string]string{
			"/usr/bin/sw_vers -productVersion":                                "26.1\n",
			"/usr/sbin/sysctl -n net.inet.ip.forwarding":                      "1\n",
			pfctl + " -s Anchors":                                             "  com.apple\n  com.apple.internet-sharing\n  mullvad\n",
			pfctl + " -a " + isolation + " -s rules":                          "pass quick on bridge101 inet from 192.168.64.0/24 to 192.168.64.0/24 flags S/SA keep state\nblock drop quick inet from <network_isolation_table_v4> to any\n",
			pfctl + " -a " + isolation + " -t " + isolationTable + " -T show": "   192.168.64.0/24\n   192.168.105.0/24\n",
			"launchctl print system/io.github.socket-vmnet2.host":             "system/io.github.socket-vmnet2.host = {\n\tstate = running\n}\n",
		}),
		daemons: map[string]status.Status{"/var/run/socket_vmnet.d/control": ours(func(st *status.Status) {
			st.Network.Mode, st.Network.State = "host", status.NetworkFailed
		})},
	}, 2},
	"linux": {stage{
		goos: "linux",
		tree: tree{
			"/run/systemd/system": "dir", "/var/run": "-> ../run", "/run/socket_vmnet": "served",
			"/etc/systemd/system/socket_vmnet2.service": "[Service]\n", "/etc/systemd/system/socket_vmnet2@.service": "[Service]\n", "/usr/lib/systemd/system/socket_vmnet2-host.service": "[Service]\n",
			"/proc/77/limits": "Limit                     Soft Limit           Hard Limit           Units     \nMax open files            256                  256                  files     \n",
			firstPort:         "1024\n", dgramLen: "10\n", "/var/lib/socket_vmnet2": "dir", "/run/socket_vmnet.d": "dir", "/usr/bin/qemu-system-x86_64": "#!",
		},
		answers: map[string]string{
			"/usr/bin/systemctl show --property=Id,ActiveState,SubState,UnitFileState,Result,NeedDaemonReload -- socket_vmnet2.service socket_vmnet2-host.service": "Id=socket_vmnet2.service\nActiveState=active\nUnitFileState=disabled\nResult=success\nNeedDaemonReload=no\n\n" +
				"Id=socket_vmnet2-host.service\nActiveState=failed\nUnitFileState=enabled\nResult=exit-code\nNeedDaemonReload=no\n",
			"/usr/bin/qemu-system-x86_64 --version": "QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)\n",
		},
		processes: "77 1 998 /usr/local/bin/socket_vmnet2 --vmnet-gateway=192.168.105.1 /run/socket_vmnet\n", addresses: []string{"eth0 10.0.0.5/24"},
		daemons: map[string]status.Status{"/run/socket_vmnet.d/control": ours(func(st *status.Status) {
			st.Daemon = status.Daemon{Version: "v0.0.0-new", PID: 77, UID: 998, Socket: "/run/socket_vmnet", RuntimeDir: "/run/socket_vmnet.d", StateFile: "/var/lib/socket_vmnet2/x", MaxClients: 256}
			st.Network.Backend = "usernet"
			st.Network.Usernet = &status.Usernet{Forwards: []status.Forward{{Proto: "tcp", Host: "0.0.0.0:80", Guest: "192.168.105.9:80", Error: "permission denied"}}}
			st.Clients[0].Transport = status.Unixgram
		})},
	}, 3},
}

// TestStages compares whole reports with golden ones.
func TestStages(t *testing.T) {
	for name, tt := range stages {
		t.Run(name, func(t *testing.T) {
			s := tt.system(t)
			r := Examine(t.Context(), s)
			assert.Equal(t, tt.code, r.ExitCode())
			steady(r)
			golden(t, name+".txt", r.Text(status.View{Width: 80}, false))
		})
	}
}

// steady takes from a report what depends on the machine that staged it, before lines are broken.
func steady(r *Report) {
	same := strings.NewReplacer(
		r.Root, "/staged",
		fmt.Sprintf("user %d", os.Getuid()), "user 0", // a path's owner, in the rules for paths
	).Replace
	r.Root = same(r.Root)
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Text = same(f.Text)
		for j := range f.Fix {
			f.Fix[j] = same(f.Fix[j])
		}
	}
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	for _, r := range text {
		assert.True(t, r == '\n' || r >= ' ' && r != 0x7f, "%q", r)
	}
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) //nolint:gosec // a file of the repository
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "if the new report is better: go test ./internal/ops/doctor -update")
}

// TestStaged is what --root does: files only, which are read and not changed.
func TestStaged(t *testing.T) {
	root := lima.build(t)
	list := func() string {
		out, err := exec.CommandContext(t.Context(), "ls", "-lAiR", root).Output()
		require.NoError(t, err)
		return string(out)
	}
	before := list()
	r := Examine(t.Context(), Host(find.System{Root: root, Homes: []string{"/Users/ann"}}))
	assert.Equal(t, before, list())
	assert.Equal(t, 0, r.ExitCode(), "%+v", r.Findings)
	assert.Equal(t, "macOS", r.System)
	skipped := map[string]bool{}
	for _, s := range r.Skipped {
		skipped[s.Check] = true
		assert.False(t, s.Root, "%+v", s)
	}
	for _, id := range []string{"daemons", "permissions", "overlap", "firewall", "macos", "qemu"} {
		assert.True(t, skipped[id], id)
	}
}

const page = "../../../docs/doctor.md"

// TestPage: each check has its section, in their order, with the question that it answers and every severity that any of the
// staged systems gets from it.
func TestPage(t *testing.T) {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(b)
	sections := regexp.MustCompile("(?m)^### `(.*)`$").FindAllStringSubmatchIndex(text, -1)
	checks := checks()
	require.Len(t, sections, len(checks))
	told := severities(t)
	for i, c := range checks {
		assert.Equal(t, c.ID, text[sections[i][2]:sections[i][3]])
		end := len(text)
		if i+1 < len(checks) {
			end = sections[i+1][0]
		}
		section := text[sections[i][0]:end]
		assert.Contains(t, section, "\n\n*"+c.Title+"*\n\n", c.ID)
		if c.goos != "" {
			assert.Contains(t, strings.ToLower(section), map[string]string{"darwin": "macos", "linux": "linux"}[c.goos], c.ID)
		}
		for severity := range told[c.ID] {
			if severity == severityOK || c.ID == "daemons" { // whatever a daemon says
				continue
			}
			assert.Regexp(t, `(?m)^\| [a-z, ]*`+severity, section, "%s: %s", c.ID, severity)
		}
	}
}

// severities are those of each check's findings in the golden reports.
func severities(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Len(t, files, len(stages))
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^  (ok|notice|warning|error) +([a-z]+): `).FindAllStringSubmatch(string(b), -1) {
			if all[m[2]] == nil {
				all[m[2]] = map[string]bool{}
			}
			all[m[2]][m[1]] = true
		}
	}
	return all
}

// TestSamples compares the reports on the page with what the program says of the staged systems.
func TestSamples(t *testing.T) {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	mark := regexp.MustCompile(`(?s)(<!-- sample: ([a-z-]+) -->\n).*?(<!-- /sample -->)`)
	want := mark.ReplaceAllFunc(b, func(found []byte) []byte {
		m := mark.FindSubmatch(found)
		tt, ok := stages[string(m[2])]
		require.True(t, ok, "%s", m[2])
		s := tt.system(t)
		r := Examine(t.Context(), s)
		r.Root = ""
		text := r.Text(status.View{Width: 118}, false) // as wide as the lines of the page
		return []byte(string(m[1]) + "\n```text\n" + strings.ReplaceAll(text, s.Root, "") + "```\n\n" + string(m[3]))
	})
	if *update {
		require.NoError(t, os.WriteFile(page, want, 0o644)) //nolint:gosec // a file of the repository
		return
	}
	assert.Equal(t, string(want), string(b), "go test ./internal/ops/doctor -update")
}

// TestSchema finds every key of the JSON document on the page.
func TestSchema(t *testing.T) {
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, typ := range []reflect.Type{reflect.TypeFor[Report](), reflect.TypeFor[finding](), reflect.TypeFor[omission]()} {
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			assert.Contains(t, string(b), "`"+name+"`", "%s.%s", typ, f.Name)
		}
	}
}
