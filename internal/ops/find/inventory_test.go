// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden inventories, and the sample in MIGRATION.md")

// staged is a system of files alone.
func staged(root string) System {
	return System{Root: root, Homes: []string{"/Users/ann"}, GOOS: "darwin", Program: "/download/socket_vmnet2", Version: "v9.8.7"}
}

// text is what migrate prints of s, without what differs from run to run.
func text(tb testing.TB, s System) string {
	tb.Helper()
	v := Look(tb.Context(), s)
	var b bytes.Buffer
	require.NoError(tb, v.WriteText(&b, v.Moves(s.Program), 80))
	for _, r := range b.String() {
		assert.True(tb, r == '\n' || r >= ' ' && r != 0x7f, "%q", r)
	}
	return strings.ReplaceAll(b.String(), s.Root, "/staged")
}

// trees are systems as installers leave them.
var trees = map[string]tree{
	"empty":    {"/opt": "dir", "/Users/ann": "dir"},
	"upstream": upstreamBin.with(upstreamJob, upstreamBridged, minikube("/var/run/socket_vmnet", "/opt/socket_vmnet/bin/socket_vmnet_client")),
	"homebrew": brew.with(brewJob, minikube("/opt/homebrew/var/run/socket_vmnet", "/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet_client"),
		limaSocket("/opt/homebrew/var/run/socket_vmnet", "vz")),
	"macports":      macPorts,
	"lima":          upstreamBin.with(limaManaged("/opt/socket_vmnet/bin/socket_vmnet")),
	"lima-homebrew": brew.with(limaManaged("/opt/homebrew/Cellar/socket_vmnet/1.1.6/bin/socket_vmnet")),
	"colima":        colima,
	"rancher-finch": {
		"/opt/rancher-desktop/bin/socket_vmnet": cProgram("v1.2.2"),
		"/opt/finch/bin/socket_vmnet":           cProgram("v1.2.2"),
		"/Users/ann/Library/Application Support/rancher-desktop/lima/_config/networks.yaml": strings.ReplaceAll(strings.ReplaceAll(
			ofLima("networks.yaml", "/opt/rancher-desktop/bin/socket_vmnet", "everyone"), "192.168.10", "192.168.20"), "/private/var/run/lima", "/private/var/run"),
		"/Users/ann/Library/Application Support/rancher-desktop/lima/0/lima.yaml": "vmType: vz\nnetworks:\n- lima: shared\n",
	},
	"mixed": upstreamBin.with(upstreamJob, brew, brewJob, macPorts, colima, limaManaged("/opt/homebrew/Cellar/socket_vmnet/1.1.6/bin/socket_vmnet"), tree{
		"/private/etc/sudoers.d/lima": "# of an older version\n",
	}),
	// Homebrew has a newer version, and socket_vmnet's own install was removed by hand.
	"gone": limaManaged("/opt/homebrew/Cellar/socket_vmnet/1.1.5/bin/socket_vmnet").with(brew, upstreamJob, tree{
		"/opt/socket_vmnet/bin/socket_vmnet_client": cProgram("v1.2.2"),
	}),
	// Every file is something else than it should be.
	"damaged": upstreamBin.with(tree{
		"/opt/socket_vmnet/bin/socket_vmnet":                          "",
		"/Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist": "<plist><dict><key>Label",
		"/Library/LaunchDaemons/org.macports.socket_vmnet.plist":      job("org.macports.socket_vmnet", "/bin/sh", "-c", "socket_vmnet"),
		"/Library/LaunchDaemons/other.plist":                          "no list",
		"/Library/LaunchDaemons/odd.plist":                            job("odd\nlabel'; x", "/gone/socket_vmnet2", "--vmnet-gateway=10.2.3.4", "/var/run/o d'd"),
		"/Library/LaunchDaemons/directory.plist/x":                    "",
		"/Users/ann/.lima/_config/networks.yaml":                      "|",
		"/Users/ann/.lima/loop/lima.yaml":                             "-> lima.yaml",
		"/Users/ann/.lima/deep/lima.yaml":                             "networks: " + strings.Repeat("[", 500),
		"/Users/ann/.lima/long/lima.yaml":                             "networks: " + strings.Repeat("- ", 100000),
		"/Users/ann/.lima/script/lima.yaml":                           "# comment\nprovision:\n- script: |\n" + strings.Repeat("    true\n", 20000) + "\nvmType: vz\n# comment\nnetworks:\n# comment\n- socket: /var/run/socket_vmnet\nmounts: []\n",
		"/Users/ann/.lima/types/lima.yaml":                            "vmType: [1]\nnetworks: text\n",
		"/Users/ann/.lima/large/lima.yaml":                            strings.Repeat("# comment\n", 40000),
		"/Users/ann/.lima/out/lima.yaml":                              "-> /../../../../../../../etc/passwd",
		"/Users/ann/.lima/-rf/lima.yaml":                              "vmType: vz\nnetworks:\n- socket: /var/run/socket_vmnet\n",
		"/Users/ann/.minikube/profiles/p/config.json":                 `{"Driver": 1}`,
		"/Users/ann/.colima/default/colima.yaml":                      "network: \x1b[2J\n",
		"/opt/local/bin/socket_vmnet":                                 "-> socket_vmnet",
		"/opt/colima/bin/socket_vmnet":                                "dir",
	}),
}

// TestTrees compares what is found in each tree with a golden text.
func TestTrees(t *testing.T) {
	for name, tree := range trees {
		t.Run(name, func(t *testing.T) {
			got, path := text(t, staged(tree.build(t))), filepath.Join("testdata", name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "if it is better: go test ./internal/ops/find -update")
		})
	}
}

// TestPage compares the sample on the page with what is printed of a tree, and looks for every key of the JSON document.
func TestPage(t *testing.T) {
	const page, begin, end = "../../../MIGRATION.md", "<!-- sample -->\n", "<!-- /sample -->"
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(b), begin)
	require.True(t, ok)
	sample, tail, ok := strings.Cut(rest, end)
	require.True(t, ok)
	got := text(t, staged(trees["lima"].build(t)))
	if want := "\n```text\n" + got + "```\n\n"; *update {
		require.NoError(t, os.WriteFile(page, []byte(head+begin+want+end+tail), 0o644))
	} else {
		assert.Equal(t, want, sample, "go test ./internal/ops/find -update")
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Inventory](), reflect.TypeFor[program](), reflect.TypeFor[Job](), reflect.TypeFor[Unit](), reflect.TypeFor[network](),
		reflect.TypeFor[server](), reflect.TypeFor[client](), reflect.TypeFor[problem](), reflect.TypeFor[Move](), reflect.TypeFor[setup](),
	} {
		for f := range typ.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				assert.Contains(t, string(b), "`"+name+"`", "%s.%s", typ, f.Name)
			}
		}
	}
}

// busy is a machine on which all of it runs: a job, Lima's network, daemons by hand, and clients of each kind.
func busy(t *testing.T) System {
	t.Helper()
	s := staged(tree{
		"/opt/socket_vmnet/bin/socket_vmnet":                          cProgram("v1.2.2"),
		"/Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist": job("io.github.lima-vm.socket_vmnet", "/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"),
		"/Users/ann/Library/LaunchAgents/own.plist":                   job("own", "/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-mode=host", "--vmnet-gateway=192.168.107.1", "/Users/ann/host"),
		"/Users/ann/.lima/_config/networks.yaml":                      ofLima("networks.yaml", "/opt/socket_vmnet/bin/socket_vmnet", "admin"),
		"/Users/ann/.lima/old/lima.yaml":                              "vmType: qemu\nnetworks: [{lima: shared}]\n",
		"/Users/ann/.lima/old/qemu.pid":                               "202",
		"/Users/ann/.lima/gone/lima.yaml":                             "vmType: vz\nnetworks: [{lima: shared}]\n",
		"/Users/ann/.lima/gone/ha.pid":                                "999",
		"/Users/ann/.minikube/profiles/m/config.json":                 `{"Driver":"qemu2","Network":"socket_vmnet","SocketVMnetPath":"/var/run/socket_vmnet"}`,
		"/Users/ann/.minikube/machines/m/qemu.pid":                    "203",
	}.build(t))
	const ps = `
    1     0     0 /sbin/launchd
  101     1     0 /opt/socket_vmnet/bin/socket_vmnet --vmnet-gateway=192.168.105.1 /var/run/socket_vmnet
  102     1     0 /opt/socket_vmnet/bin/socket_vmnet --vmnet-mode=shared --vmnet-gateway=192.168.105.1 /private/var/run/lima/socket_vmnet.shared
  103   150   501 /opt/socket_vmnet/bin/socket_vmnet --vmnet-mode=host /tmp/own
  104   150   501 /Users/ann/bin/socket_vmnet2 --backend=usernet --vmnet-gateway=10.1.2.1 /tmp/ours
  105   150   501 socket_vmnet2 migrate
  202     1   501 /opt/homebrew/bin/qemu-system-aarch64 -name lima-old -netdev socket,id=net1,fd=3
  203     1   501 qemu-system-x86_64 -name m -netdev socket,id=net0,fd=3
  204     1   501 /opt/homebrew/bin/qemu-system-x86_64 -netdev stream,id=n,addr.type=unix,addr.path=/var/run/socket_vmnet,reconnect=1
  205     1   501 /opt/homebrew/bin/krunkit --device virtio-net,type=unixstream,path=/private/var/run/socket_vmnet,mac=02:00:00:00:00:01
  206     1   501 tart run x
  207     1   501 vim /var/run/socket_vmnet
bad line
`
	s.Run = func(_ context.Context, name string, args ...string) ([]byte, error) {
		switch {
		case name != "launchctl":
			return nil, exec.ErrNotFound
		case strings.Join(args, " ") == "print system/io.github.lima-vm.socket_vmnet":
			return []byte("system/x = {\n\tactive count = 1\n\tstate = running\n\tpid = 101\n}\n"), nil
		}
		return nil, errors.New("exit status 113")
	}
	s.Processes = func(context.Context) ([]Process, error) { return ParsePS(ps), nil }
	return s
}

func TestBusyMachine(t *testing.T) {
	s := busy(t)
	v := Look(t.Context(), s)
	started := map[int]string{}
	for _, d := range v.Servers {
		started[d.PID] = d.StartedBy + " " + d.Socket
	}
	assert.Equal(t, map[int]string{
		101: "the job io.github.lima-vm.socket_vmnet /var/run/socket_vmnet",
		102: "lima for its network shared /private/var/run/lima/socket_vmnet.shared",
		103: "hand /tmp/own", 104: "hand /tmp/ours",
	}, started)
	clients := map[string]bool{}
	for _, c := range v.Clients {
		clients[c.Tool+" "+c.Name] = c.Running
	}
	assert.Equal(t, map[string]bool{
		"lima old": true, "lima gone": false, "minikube m": true, "qemu-system-x86_64 process 204": true, "krunkit process 205": true,
	}, clients)
	states := map[string]string{}
	for _, j := range v.Jobs {
		states[j.Label] = j.State
	}
	assert.Equal(t, map[string]string{"io.github.lima-vm.socket_vmnet": "running", "own": NotLoaded}, states)

	assert.Equal(t, []string{
		"sudo /download/socket_vmnet2 install",
		"limactl stop old", "minikube stop --profile=m",
		"sudo launchctl kickstart -k system/io.github.lima-vm.socket_vmnet",
		"kill 103", "/opt/socket_vmnet/bin/socket_vmnet --vmnet-mode=host /tmp/own &",
		"limactl start old", "minikube start --profile=m",
		"# process 204 (qemu-system-x86_64) has to be restarted, unless it reconnects", "# process 205 (krunkit) has to be restarted, unless it reconnects",
	}, v.Moves(s.Program)[0].Lines)
	b, err := json.Marshal(v)
	require.NoError(t, err)
	assert.Contains(t, string(b), `"subnet":"192.168.107.0/24"`)
}

// TestNothingToAsk has every program missing or failing: that is told, and nothing else is lost.
func TestNothingToAsk(t *testing.T) {
	for _, err := range []error{exec.ErrNotFound, errors.New("exit status 1")} {
		s := busy(t)
		s.Run = func(context.Context, string, ...string) ([]byte, error) { return nil, err }
		s.Processes = ps(s.Run)
		v := Look(t.Context(), s)
		assert.Empty(t, v.Servers)
		assert.Len(t, v.Jobs, 2)
		assert.Contains(t, v.Problems[0].Error, "what runs is not known")
		for _, c := range v.Clients {
			assert.True(t, c.Running, "a pidfile is all there is")
		}
	}
}

// TestByPath: a daemon that was started as socket_vmnet, found by PATH, serves its socket as the file that it runs.
func TestByPath(t *testing.T) {
	s := busy(t)
	s.Processes = func(context.Context) ([]Process, error) {
		return []Process{{PID: 103, Exe: "/opt/socket_vmnet/bin/socket_vmnet", Args: []string{"socket_vmnet", "--vmnet-gateway=10.1.2.1", "/tmp/vmnet.sock"}}}, nil
	}
	v := Look(t.Context(), s)
	assert.Contains(t, v.Served(v.Programs[0]), "/tmp/vmnet.sock")
	assert.Contains(t, text(t, s), "process 103 of /opt/socket_vmnet/bin/socket_vmnet, started by hand")
}

// TestOurs is a program of ours under the old name: there is nothing to do.
func TestOurs(t *testing.T) {
	s := busy(t)
	self, err := os.Executable() // a program of this module, whatever its name
	require.NoError(t, err)
	program := filepath.Join(s.Root, "/opt/socket_vmnet/bin/socket_vmnet")
	b, err := os.ReadFile(self)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, b, 0o755)) //nolint:gosec // a program
	v := Look(t.Context(), s)
	assert.True(t, v.Programs[0].Ours)
	assert.True(t, v.Servers[0].Ours)
	assert.True(t, v.Ours())
	m := v.Moves(s.Program)[0]
	assert.Empty(t, m.Lines)
	assert.Contains(t, m.Why, "is socket_vmnet2")
}

// TestOthers are programs that are not ours, whatever they say.
func TestOthers(t *testing.T) {
	for name, tt := range map[string]struct{ content, version string }{
		"script":       {"#!/bin/sh\necho " + modulePath, ""},
		"C":            {"\x7fELF\x00v1.2.3\x00 " + modulePath, "v1.2.3"},
		"two versions": {"\x00" + "1.2.3-rc.1\x00\x009.9.9\x00", "1.2.3-rc.1"},
		"ELF cut off":  {"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00", ""},
		"Mach-O":       {"\xcf\xfa\xed\xfe\x07\x00\x00\x01" + strings.Repeat("\xff", 24), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p")
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			f, _, err := System{}.open(path)
			require.NoError(t, err)
			defer f.Close()
			ours, version := inFile(f)
			assert.False(t, ours)
			assert.Equal(t, tt.version, version)
		})
	}
}

// TestSudoers: of what is there the golden inventories tell.
func TestSudoers(t *testing.T) {
	s := busy(t)
	state := func() string { return Look(t.Context(), s).Networks[0].State }
	assert.Equal(t, SudoersMissing, state())
	path := filepath.Join(s.Root, "/private/etc/sudoers.d/lima")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.Symlink("lima", path))
	assert.Equal(t, SudoersUnreadable, state())
}

// TestProblems: what is absent is none, and where sudo would help it says so, once.
func TestProblems(t *testing.T) {
	f := &search{Inventory: &Inventory{}}
	for _, err := range []error{fs.ErrNotExist, &fs.PathError{Path: "/x", Err: syscall.EACCES}, &fs.PathError{Path: "/x", Err: syscall.EACCES}, errors.New("odd\nline")} {
		f.problem("/x", err)
	}
	assert.Equal(t, []problem{{"/x", "permission denied", true}, {"/x", "odd line", false}}, f.Problems)
	var b bytes.Buffer
	require.NoError(t, f.WriteText(&b, nil, 80))
	assert.Contains(t, b.String(), "unread   /x: permission denied; run this again with sudo\n")
}

// TestUnits are those of systemd, by what they run or by name, without templates, with and without systemd.
func TestUnits(t *testing.T) {
	const etc, usr = "/etc/systemd/system/", "/usr/lib/systemd/system/"
	s := staged(tree{
		etc + "other.service": "[Service]\nExecStart=/bin/true\n", etc + "socket_vmnet2.service": "x", etc + "socket_vmnet2@.service": "x",
		etc + "vm.service":                "[Service]\nExecStart=\"/opt/a/bin/socket_vmnet2\" /run/x\n",
		usr + "socket_vmnet2-host.socket": "x", usr + "vm.service": "x",
	}.build(t))
	s.GOOS = "linux"
	assert.Equal(t, []Unit{
		{Name: "socket_vmnet2.service", Path: etc + "socket_vmnet2.service"},
		{Name: "vm.service", Path: etc + "vm.service", Program: "/opt/a/bin/socket_vmnet2"},
		{Name: "socket_vmnet2-host.socket", Path: usr + "socket_vmnet2-host.socket"},
	}, LookAtJobs(t.Context(), s).Units)
	require.NoError(t, os.MkdirAll(filepath.Join(s.Root, "/run/systemd/system"), 0o755))
	s.Run = func(context.Context, string, ...string) ([]byte, error) {
		return []byte("Id=socket_vmnet2-host.socket\nActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=yes\n"), nil
	}
	v := Look(t.Context(), s)
	assert.True(t, v.Booted)
	assert.Equal(t, Unit{Name: "socket_vmnet2-host.socket", Path: usr + "socket_vmnet2-host.socket", Active: "active", Enabled: "enabled", Stale: true}, v.Units[2])
}

// TestHostileNames has names in files of users that a shell would run. Each line is run by a shell in which every program only notes
// its arguments.
func TestHostileNames(t *testing.T) {
	const evil = `/var/run/a b'";touch caught;$(touch caught)` + "`touch caught`|&<>*~"
	escape := func(s string) string {
		var b strings.Builder
		require.NoError(t, xml.EscapeText(&b, []byte(s)))
		return b.String()
	}
	root := upstreamBin.with(brew, limaManaged("/opt/socket_vmnet/bin/socket_vmnet"), limaSocket("/x", "vz"), tree{
		"/Library/LaunchDaemons/a.plist":          job(escape("label "+evil), "/opt/socket_vmnet/bin/socket_vmnet", escape(evil)),
		"/Users/ann/Library/LaunchAgents/b.plist": job(escape(evil), "/opt/socket_vmnet/bin/socket_vmnet", "/x"),
		"/Library/LaunchDaemons/c.plist": job(escape("brew "+evil), "/opt/homebrew/opt/socket_vmnet/bin/socket_vmnet",
			"--vmnet-gateway=192.168.105.1", escape(evil+"2")),
		"/Users/ann/.lima/_config/networks.yaml":                    ofLima("networks.yaml", "/opt/socket_vmnet/bin/socket_vmnet", "$(touch caught)"),
		"/Users/ann/.lima/;touch caught;/lima.yaml":                 "networks:\n- socket: /x\n",
		"/Users/ann/.minikube/profiles/$(touch caught)/config.json": `{"Driver":"qemu2","Network":"socket_vmnet"}`,
	}).build(t)
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"sudo", "launchctl", "limactl", "sed", "minikube"} {
		text := "#!/bin/sh\nfor a; do printf '%s\\n' \"$a\" >>'" + dir + "/words'; done\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755)) //nolint:gosec // a program
	}
	s := staged(root)
	v := Look(t.Context(), s)
	lines := 0
	for _, m := range v.Moves(s.Program) {
		for _, line := range m.Lines {
			lines++
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\n%s", line, out)
		}
	}
	assert.Greater(t, lines, 6)
	b, err := os.ReadFile(filepath.Join(dir, "words"))
	require.NoError(t, err)
	words := strings.Split(string(b), "\n")
	assert.Contains(t, words, evil+"2", "the socket is one word")
	assert.Contains(t, words, "system/label "+evil, "and so is the label")
	for _, where := range []string{dir, bin, root, "."} {
		assert.NoFileExists(t, filepath.Join(where, "caught"))
	}
	for _, c := range v.Clients {
		assert.NotContains(t, c.Name, "touch", "no name that its tool would take")
	}
}

// FuzzFiles puts anything into the files that are read: an inventory comes of it, and nothing in it moves the cursor.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(ofLima("networks.yaml", "/opt/socket_vmnet/bin/socket_vmnet", "admin")), []byte("networks: [{lima: shared}, {socket: /x}]"), []byte(job("l", "/opt/socket_vmnet/bin/socket_vmnet", "/s")), []byte(`{"Driver":"qemu2"}`))
	f.Add([]byte("paths: &a {socketVMNet: *a}"), []byte("networks: [{socket: \"\x1b[2J\"}]"), []byte("bplist00\xd1\x01\x02"), []byte("[]"))
	f.Add([]byte("group: [[[["), []byte("? "), []byte("{Label=socket_vmnet;}"), []byte("{"))
	root := f.TempDir()
	paths := []string{
		"/Users/ann/.lima/_config/networks.yaml", "/Users/ann/.lima/i/lima.yaml", "/Library/LaunchDaemons/socket_vmnet.plist",
		"/Users/ann/.minikube/profiles/p/config.json", "/opt/socket_vmnet/bin/socket_vmnet",
	}
	for _, p := range paths {
		require.NoError(f, os.MkdirAll(filepath.Join(root, filepath.Dir(p)), 0o755))
	}
	f.Fuzz(func(t *testing.T, networks, instance, plist, profile []byte) {
		for i, b := range [][]byte{networks, instance, plist, profile, append([]byte("#!"), instance...)} {
			require.NoError(t, os.WriteFile(filepath.Join(root, paths[i]), b[:min(len(b), 4<<10)], 0o755)) //nolint:gosec // one is a program
		}
		s := staged(root)
		text(t, s)
		b, err := json.Marshal(Look(t.Context(), s))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &Inventory{}))
	})
}

// FuzzPrograms has ps and systemctl say anything.
func FuzzPrograms(f *testing.F) {
	f.Add("1 0 0 socket_vmnet /s\n2 1 1 qemu-system-x -name\nId=socket_vmnet2.service\nActiveState=failed\n\nId=x\n")
	f.Add("-1 0 0 \x00\n 1 1 1")
	f.Fuzz(func(t *testing.T, out string) {
		run := func(context.Context, string, ...string) ([]byte, error) { return []byte(out), nil }
		s := System{Root: t.TempDir(), GOOS: "linux", Run: run, Processes: ps(run)}
		v := Look(t.Context(), s)
		_ = Properties(out)
		require.NoError(t, v.WriteText(&bytes.Buffer{}, v.Moves("p"), 80), fmt.Sprint(v))
	})
}

// TestWidths: lines fit, but for commands and long words, no word is cut, and what is broken of a comment is a comment.
func TestWidths(t *testing.T) {
	s := staged(trees["lima-homebrew"].build(t))
	v := Look(t.Context(), s)
	var all []string
	for _, width := range []int{1 << 20, 40, 80, 200} {
		var b bytes.Buffer
		require.NoError(t, v.WriteText(&b, v.Moves(s.Program), width))
		words := strings.Fields(strings.ReplaceAll("\n"+b.String(), "\n# ", "\n"))
		if all == nil {
			all = words
		}
		assert.Equal(t, all, words, "%d", width)
		rows, commands, _ := strings.Cut(b.String(), "\n\n")
		for _, line := range append(strings.Split(rows, "\n"), strings.Split(commands, "\n")...) {
			text, comment := strings.CutPrefix(line, "# ")
			row := strings.Contains(rows, line)
			assert.True(t, len(line) <= width || !comment && !row || len(strings.Fields(text)) <= 2, "%d: %s", width, line)
		}
	}
}
