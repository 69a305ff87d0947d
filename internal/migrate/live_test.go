// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
)

// write makes files below a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		full := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(content), 0o755)) //nolint:gosec // some are programs
	}
	return root
}

const plistText = `<plist version="1.0"><dict><key>Label</key><string>%s</string><key>ProgramArguments</key><array>%s</array></dict></plist>`

func list(label string, args ...string) string {
	return fmt.Sprintf(plistText, label, "<string>"+strings.Join(args, "</string><string>")+"</string>")
}

const limaYAML = `paths:
  socketVMNet: /opt/socket_vmnet/bin/socket_vmnet
  varRun: /private/var/run/lima
  sudoers: /private/etc/sudoers.d/lima
group: admin
networks:
  shared: {mode: shared, gateway: 192.168.105.1, dhcpEnd: 192.168.105.254, netmask: 255.255.255.0}
`

// busy is a machine on which all of it runs: a job, Lima's network, a daemon by hand, and clients of each kind.
func busy(t *testing.T) System {
	t.Helper()
	const c = "#!/bin/false\n\x00v1.2.2\x00"
	root := write(t, map[string]string{
		"/opt/socket_vmnet/bin/socket_vmnet":                             c,
		"/Library/LaunchDaemons/io.github.lima-vm.socket_vmnet.plist":    list("io.github.lima-vm.socket_vmnet", "/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"),
		"/Users/ann/Library/LaunchAgents/own.plist":                      list("own", "/opt/socket_vmnet/bin/socket_vmnet", "--vmnet-mode=host", "--vmnet-gateway=192.168.107.1", "/Users/ann/host"),
		"/Users/ann/.lima/_config/networks.yaml":                         limaYAML,
		"/Users/ann/.lima/new/lima.yaml":                                 "vmType: qemu\nnetworks: [{lima: shared}]\n",
		"/Users/ann/.lima/new/qemu.pid":                                  "201",
		"/Users/ann/.lima/old/lima.yaml":                                 "vmType: qemu\nnetworks: [{lima: shared}]\n",
		"/Users/ann/.lima/old/qemu.pid":                                  "202",
		"/Users/ann/.lima/gone/lima.yaml":                                "vmType: vz\nnetworks: [{lima: shared}]\n",
		"/Users/ann/.lima/gone/ha.pid":                                   "999",
		"/Users/ann/.minikube/profiles/m/config.json":                    `{"Driver":"qemu2","Network":"socket_vmnet","SocketVMnetPath":"/var/run/socket_vmnet"}`,
		"/Users/ann/.minikube/machines/m/qemu.pid":                       "203",
		"/opt/homebrew/var/run/socket_vmnet":                             "stale",
		"/Library/LaunchDaemons/homebrew.mxcl.socket_vmnet_client.plist": list("x", "/opt/socket_vmnet/bin/socket_vmnet_client", "a", "b"),
	})
	const ps = `
    1     0     0 /sbin/launchd
  101     1     0 /opt/socket_vmnet/bin/socket_vmnet --vmnet-gateway=192.168.105.1 /var/run/socket_vmnet
  102     1     0 /opt/socket_vmnet/bin/socket_vmnet --pidfile=/private/var/run/lima/shared_socket_vmnet.pid --socket-group=admin --vmnet-mode=shared --vmnet-gateway=192.168.105.1 --vmnet-dhcp-end=192.168.105.254 --vmnet-mask=255.255.255.0 /private/var/run/lima/socket_vmnet.shared
  103   150   501 socket_vmnet2 --vmnet-mode=host /tmp/own socket
  104   150   501 /Users/ann/bin/socket_vmnet2 --backend=usernet --vmnet-gateway=10.1.2.1 /tmp/own
  105   150   501 socket_vmnet2 migrate
  201     1   501 /opt/homebrew/bin/qemu-system-aarch64 -name lima-new -netdev stream,id=net1,server=off,addr.type=unix,addr.path=/private/var/run/lima/socket_vmnet.shared,reconnect-ms=500
  202     1   501 /opt/homebrew/bin/qemu-system-aarch64 -name lima-old -netdev socket,id=net1,fd=3
  203     1   501 qemu-system-x86_64 -name m -netdev socket,id=net0,fd=3
  204     1   501 /opt/homebrew/bin/qemu-system-x86_64 -name guest=hand,debug-threads=on -netdev stream,id=n,addr.type=unix,addr.path=/var/run/socket_vmnet,reconnect=1
  205     1   501 /opt/homebrew/bin/krunkit --device virtio-net,type=unixstream,path=/var/run/socket_vmnet,mac=02:00:00:00:00:01
  206     1   501 tart run x
  207     1   501 vim /var/run/socket_vmnet
bad line
`
	const lsof = "p101\nf3\nd0xaa01\nn/var/run/socket_vmnet\nf4\nd0xaa02\nn/var/run/socket_vmnet\n" +
		"p203\nf3\nd0xbb01\nn->0xaa02\np206\nf5\nd0xbb02\nn->0xaa02\np300\nf1\nd0x1\nn->0xffff\n"
	return System{
		Root: root, Homes: []string{"/Users/ann"}, GOOS: "darwin", Program: "/tmp/socket_vmnet2", Version: "v9",
		Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
			switch line := name + " " + strings.Join(args, " "); {
			case line == "launchctl print system/io.github.lima-vm.socket_vmnet":
				return []byte("system/x = {\n\tactive count = 1\n\tstate = running\n\tpid = 101\n}\n"), nil
			case name == "launchctl":
				return nil, errors.New("exit status 113")
			case name == "lsof":
				return []byte(lsof), nil
			}
			return nil, exec.ErrNotFound
		},
		Processes: func(context.Context) ([]Process, error) { return find.ParsePS(ps), nil },
	}
}

func TestBusyMachine(t *testing.T) {
	s := busy(t)
	p := Find(t.Context(), s)
	require.Equal(t, VerdictMigrate, p.Verdict)

	started := map[int]string{}
	for _, d := range p.Daemons {
		started[d.PID] = d.StartedBy + " " + d.Socket
	}
	assert.Equal(t, map[int]string{
		101: "launchd job io.github.lima-vm.socket_vmnet /var/run/socket_vmnet",
		102: "lima for its network shared /private/var/run/lima/socket_vmnet.shared",
		103: "by hand ", // ps does not tell its path with a space
		104: "by hand /tmp/own",
	}, started)

	type how struct{ attach, effect string }
	machines := map[string]how{}
	for _, m := range p.Machines {
		machines[m.Tool+" "+m.Name] = how{m.Attach, m.Effect}
	}
	assert.Equal(t, map[string]how{
		"lima new":        {AttachReconnect, EffectReconnects},
		"lima old":        {AttachDescriptor, EffectRestart},
		"lima gone":       {AttachVZ, EffectNotRunning},
		"minikube m":      {AttachDescriptor, EffectRestart},
		"qemu hand":       {AttachReconnect, EffectReconnects},
		"krunkit krunkit": {AttachKrunkit, EffectRestart},
		"tart tart":       {AttachOther, EffectRestart},
	}, machines)

	states := map[string]string{}
	for _, j := range p.Jobs {
		states[j.Label] = j.State
	}
	assert.Equal(t, map[string]string{"io.github.lima-vm.socket_vmnet": "running", "own": "not loaded"}, states)

	kinds := map[string]int{}
	for _, c := range p.Conflicts {
		kinds[c.Kind]++
	}
	assert.Equal(t, map[string]int{"subnet": 1, "sudoers": 1, "stale-socket": 1}, kinds, "%v", p.Conflicts)
	assert.Contains(t, conflictTexts(p), "/opt/homebrew/var/run/socket_vmnet is there, but no daemon that serves it runs")

	var commands []string
	for _, step := range p.Changes[0].Steps {
		commands = append(commands, step.Command)
	}
	assert.Equal(t, []string{
		"sudo /tmp/socket_vmnet2 install --root=" + s.Root,
		"sudo launchctl kickstart -k system/io.github.lima-vm.socket_vmnet",
		`launchctl kickstart -k "gui/$(id -u)"/own`,
		"limactl stop new", "limactl stop old", "minikube stop --profile=m",
		"limactl start new", "limactl start old", "minikube start --profile=m",
	}, commands)
	var text bytes.Buffer
	require.NoError(t, p.WriteText(&text))
	assert.Contains(t, strings.Join(strings.Fields(text.String()), " "), "comes back by itself after a restart of its daemon: no network until the daemon listens again")
}

// TestNetworkOfReconnecting has a network of Lima whose machines all come back by themselves: none of them is restarted.
func TestNetworkOfReconnecting(t *testing.T) {
	s := busy(t)
	require.NoError(t, os.RemoveAll(filepath.Join(s.Root, "/Users/ann/.lima/old")))
	c := Find(t.Context(), s).Changes[0]
	want := "sudo /usr/bin/pkill -F /private/var/run/lima/shared_socket_vmnet.pid && sleep 2 && sudo -b /opt/socket_vmnet/bin/socket_vmnet " +
		"--pidfile=/private/var/run/lima/shared_socket_vmnet.pid --socket-group=admin --vmnet-mode=shared --vmnet-gateway=192.168.105.1 " +
		"--vmnet-dhcp-end=192.168.105.254 --vmnet-mask=255.255.255.0 /private/var/run/lima/socket_vmnet.shared " +
		"</dev/null >/dev/null 2>>/Users/ann/.lima/_networks/shared_socket_vmnet.stderr.log"
	for _, steps := range [][]Step{c.Steps, c.Undo} {
		var commands []string
		for _, step := range steps {
			commands = append(commands, step.Command)
		}
		assert.Contains(t, commands, want)
		assert.NotContains(t, commands, "limactl stop new")
	}
}

func conflictTexts(p *Plan) string {
	var all []string
	for _, c := range p.Conflicts {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

// TestNobodyToAsk has every program missing or failing: that is told, and nothing else is lost.
func TestNobodyToAsk(t *testing.T) {
	for _, err := range []error{exec.ErrNotFound, errors.New("exit status 1")} {
		s := busy(t)
		s.Run = func(context.Context, string, ...string) ([]byte, error) { return nil, err }
		s.Processes = find.PS(s.Run)
		p := Find(t.Context(), s)
		assert.Equal(t, VerdictMigrate, p.Verdict)
		assert.Empty(t, p.Daemons)
		assert.Len(t, p.Jobs, 2)
		assert.Contains(t, p.Problems[0].Error, "what runs is not known")
		for _, m := range p.Machines {
			assert.True(t, m.Running, "a pidfile is all there is")
		}
	}
}

func TestSudoers(t *testing.T) {
	s := busy(t)
	state := func() string { return Find(t.Context(), s).Networks[0].State }
	assert.Equal(t, SudoersMissing, state())
	path := filepath.Join(s.Root, "/private/etc/sudoers.d/lima")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	const want = "%admin ALL=(root:wheel) NOPASSWD:NOSETENV: /bin/mkdir -m 775 -p /private/var/run/lima\n\n" +
		"# Manage \"shared\" network daemons\n\n%admin ALL=(root:wheel) NOPASSWD:NOSETENV: \\\n" +
		"    /opt/socket_vmnet/bin/socket_vmnet --pidfile=/private/var/run/lima/shared_socket_vmnet.pid --socket-group=admin --vmnet-mode=shared" +
		" --vmnet-gateway=192.168.105.1 --vmnet-dhcp-end=192.168.105.254 --vmnet-mask=255.255.255.0 /private/var/run/lima/socket_vmnet.shared, \\\n" +
		"    /usr/bin/pkill -F /private/var/run/lima/shared_socket_vmnet.pid\n"
	require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
	assert.Equal(t, SudoersInSync, state())
	require.NoError(t, os.WriteFile(path, []byte(want+"\n"), 0o600))
	assert.Equal(t, SudoersOutOfSync, state())
}
