// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A Process is one that runs.
type Process struct {
	PID  int      `json:"pid"`
	PPID int      `json:"-"`
	UID  int      `json:"uid"`
	Args []string `json:"arguments"`
	Exe  string   `json:"-"` // the file that it runs; empty: not known
	Dir  string   `json:"-"` // its working directory; empty: not known
}

// Executable is the path of the file that p runs, or where the system does not tell that, what it was called as.
func (p Process) Executable() string {
	if p.Exe == "" && len(p.Args) > 0 {
		return p.Args[0]
	}
	return p.Exe
}

// A setup is what a daemon's command line asks for. Of one that the daemon would refuse, only Program is known.
type setup struct {
	Program    string       `json:"program"`
	Socket     string       `json:"socket,omitempty"`
	Mode       string       `json:"mode,omitempty"`
	Interface  string       `json:"interface,omitempty"`
	Gateway    netip.Addr   `json:"gateway,omitzero"`
	Subnet     netip.Prefix `json:"subnet,omitzero"`
	Pidfile    string       `json:"pidfile,omitempty"`
	RuntimeDir string       `json:"-"` // of --runtime-dir; empty: SOCKET.d
	By         string       `json:"-"` // what has this command line, in Setups
}

// A server is a process that is a daemon.
type server struct {
	Process
	setup
	Ours      bool   `json:"socket_vmnet2"`
	StartedBy string `json:"started_by"`
}

// Subcommands are the first arguments that make socket_vmnet2 something else than a daemon.
var Subcommands = []string{
	"capture", "clients", "doctor", "exec", "help", "install", "kick", "log-level", "logs", "migrate", "rollback", "selftest", "service", "status",
	"try", "upgrade", "version",
}

// isDaemon tells whether p is a daemon: socket_vmnet or socket_vmnet2 by whatever path, and no subcommand of the latter.
func isDaemon(p Process) bool {
	argv, base := p.Args, filepath.Base(p.Executable())
	if len(argv) == 0 || !strings.HasPrefix(base, "socket_vmnet") || strings.HasPrefix(base, "socket_vmnet_client") {
		return false
	}
	name, _ := compat.Subcommand(argv, append([]string{"gateway"}, Subcommands...)) // a daemon's own gateway, which no one types
	return name == "" && !slices.Contains(argv[1:], "--help") && !slices.Contains(argv[1:], "--version")
}

// setupOf reads a daemon's command line as the daemon would.
func setupOf(argv []string) setup {
	if len(argv) == 0 {
		return setup{}
	}
	s := setup{Program: argv[0]}
	cfg, _ := compat.Parse(compat.PersonalityOf(argv[0]), argv, compat.IO{
		Stdout: io.Discard, Stderr: io.Discard, LookupEnv: func(string) (string, bool) { return "", false },
	})
	if cfg == nil {
		return s
	}
	s.Socket, s.Pidfile, s.Interface, s.Mode = cfg.SocketPath, cfg.Pidfile, cfg.Interface, string(cfg.Mode)
	if cfg.Gateway.IsValid() {
		s.Gateway, s.Subnet = cfg.Gateway, cfg.Subnet
	}
	if cfg.RuntimeDir != compat.RuntimeDirNone {
		s.RuntimeDir = cfg.RuntimeDir
	}
	return s
}

// absolute is a path of the process; empty if it is empty, or relative to a directory that is not known.
func (p Process) absolute(path string) string {
	switch {
	case path == "" || filepath.IsAbs(path):
		return path
	case p.Dir == "":
		return ""
	}
	return filepath.Join(p.Dir, path)
}

// ParsePS reads the output of ps -axww -o pid=,ppid=,uid=,args=. A space in an argument cannot be told from one between two.
func ParsePS(out string) []Process {
	var list []Process
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		p := Process{Args: words[3:]}
		if _, err := fmt.Sscanf(strings.Join(words[:3], " "), "%d %d %d", &p.PID, &p.PPID, &p.UID); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// ps lists the processes by means of ps.
func ps(run runner) func(context.Context) ([]Process, error) {
	return func(ctx context.Context) ([]Process, error) {
		// Without -ww some of them cut lines at the width of a terminal.
		out, err := run(ctx, "ps", "-axww", "-o", "pid=,ppid=,uid=,args=")
		if err != nil {
			return nil, fmt.Errorf("ps failed: %w", err)
		}
		return ParsePS(string(out)), nil
	}
}

// A client is a virtual machine, or a process of one, that uses a socket.
type client struct {
	Tool    string `json:"tool"` // lima, colima, minikube, rancher-desktop or finch, else the program's name
	Name    string `json:"name"`
	VM      string `json:"vm,omitempty"` // qemu, vz, krunkit
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty"`
	Network string `json:"network,omitempty"` // of Lima, by name
	Socket  string `json:"socket"`
	Stop    string `json:"stop,omitempty"` // the command, if its tool has one
	Start   string `json:"start,omitempty"`
}

// addClient adds a machine whose pidfile is in dir.
func (f *search) addClient(m client, dir string) {
	for _, name := range []string{"qemu.pid", "krunkit.pid", "vz.pid", "ha.pid"} {
		pid, err := strconv.Atoi(strings.TrimSpace(string(f.read(filepath.Join(dir, name)))))
		if _, runs := f.Inventory.Processes[pid]; err == nil && pid > 0 && !m.Running && (runs || f.Inventory.Processes == nil) {
			m.PID, m.Running = pid, true
		}
	}
	f.Clients = append(f.Clients, m)
}

// colimaConfig is what matters here of a profile's colima.yaml.
type colimaConfig struct {
	VMType  string `yaml:"vmType"`
	Network struct {
		Address bool   `yaml:"address"`
		Mode    string `yaml:"mode"`
	} `yaml:"network"`
}

// findColima looks for the profiles that have an address of their own, as far as that is by socket_vmnet.
func (f *search) findColima() {
	for _, dir := range f.under("COLIMA_HOME", ".colima", ".config/colima") {
		decodeEach(f, dir, "colima.yaml", unmarshalYAML("vmType", "network"), func(name string, c colimaConfig) {
			// With VZ and without a bridge Colima uses what VZ has itself.
			if !c.Network.Address || c.VMType == "vz" && c.Network.Mode != "bridged" {
				return
			}
			instance := "colima-" + name
			if name == "default" {
				instance = "colima"
			}
			f.addClient(client{
				Tool: "colima", Name: name, VM: Clean(c.VMType), Socket: Clean(filepath.Join(dir, name, "daemon/vmnet.sock")),
				Stop: printable.Command("colima", "stop", name), Start: printable.Command("colima", "start", name),
			}, filepath.Join(dir, "_lima", instance))
		})
	}
}

// minikubeConfig is what matters here of a profile's config.json.
type minikubeConfig struct {
	Driver, Network, SocketVMnetPath, SocketVMnetClientPath string
}

// MinikubeSockets is where minikube looks for a socket by itself, in this order.
var MinikubeSockets = []string{"/var/run/socket_vmnet", "/opt/homebrew/var/run/socket_vmnet", "/usr/local/var/run/socket_vmnet"}

// findMinikube looks for the profiles that are on a socket_vmnet.
func (f *search) findMinikube() {
	for _, dir := range f.under("MINIKUBE_HOME", ".minikube") {
		if filepath.Base(dir) != ".minikube" {
			dir = filepath.Join(dir, ".minikube")
		}
		decodeEach(f, filepath.Join(dir, "profiles"), "config.json", json.Unmarshal, func(name string, c minikubeConfig) {
			if !strings.HasPrefix(c.Driver, "qemu") || c.Network != "socket_vmnet" && c.SocketVMnetPath == "" {
				return
			}
			socket := c.SocketVMnetPath
			if socket == "" {
				socket = MinikubeSockets[max(0, slices.IndexFunc(MinikubeSockets, f.exists))]
			}
			if client := c.SocketVMnetClientPath; client != "" && !f.exists(client) {
				f.addNamed(client, "minikube's profile "+name)
			}
			f.addClient(client{
				Tool: "minikube", Name: name, VM: "qemu", Socket: Clean(socket),
				Stop: printable.Command("minikube", "stop", "--profile="+name), Start: printable.Command("minikube", "start", "--profile="+name),
			}, filepath.Join(dir, "machines", name))
		})
	}
}

// findMonitors looks among the processes for machine monitors whose arguments name a known socket, and that are no machine of a tool.
func (f *search) findMonitors() {
	known := map[string]bool{}
	for _, s := range f.Setups() {
		known[public(s.Socket)] = s.Socket != ""
	}
	for _, pid := range slices.Sorted(maps.Keys(f.Inventory.Processes)) {
		p := f.Inventory.Processes[pid]
		base := filepath.Base(p.Args[0])
		if !strings.HasPrefix(base, "qemu-system-") && !slices.Contains([]string{"krunkit", "vfkit", "tart", "softnet"}, base) ||
			slices.ContainsFunc(f.Clients, func(m client) bool { return m.PID == pid }) {
			continue
		}
		words := strings.FieldsFunc(strings.Join(p.Args, "\n"), func(r rune) bool { return strings.ContainsRune(",=\n", r) })
		if i := slices.IndexFunc(words, func(w string) bool { return known[public(w)] }); i >= 0 {
			f.Clients = append(f.Clients, client{Tool: base, Name: "process " + strconv.Itoa(pid), Running: true, PID: pid, Socket: words[i]})
		}
	}
}

// Setups are what all daemons are, were or will be started with, those of the Servers first.
func (v *Inventory) Setups() (all []setup) {
	for _, d := range v.Servers {
		all = append(all, d.setup)
	}
	for _, j := range v.Jobs {
		all = append(all, j.setup)
	}
	for _, n := range v.Networks {
		all = append(all, n.setup)
	}
	return all
}

// Served are the sockets of what runs, or would run, a program.
func (v *Inventory) Served(p program) []string {
	sockets := []string{}
	for _, s := range v.Setups() {
		if s.Socket != "" && p.uses(s.Program) && !slices.Contains(sockets, s.Socket) {
			sockets = append(sockets, s.Socket)
		}
	}
	return sockets
}
