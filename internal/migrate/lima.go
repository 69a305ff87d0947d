// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// limaConfig is what matters here of Lima's networks.yaml.
type limaConfig struct {
	Paths struct {
		SocketVMNet string `yaml:"socketVMNet"`
		VarRun      string `yaml:"varRun"`
		Sudoers     string `yaml:"sudoers"`
	} `yaml:"paths"`
	Group    string                 `yaml:"group"`
	Networks map[string]limaNetwork `yaml:"networks"`
}

type limaNetwork struct {
	Mode      string `yaml:"mode"`
	Interface string `yaml:"interface"`
	Gateway   string `yaml:"gateway"`
	DHCPEnd   string `yaml:"dhcpEnd"`
	NetMask   string `yaml:"netmask"`
}

// limaInstance is what matters here of an instance's lima.yaml.
type limaInstance struct {
	VMType   string `yaml:"vmType"`
	Networks []struct {
		Lima   string `yaml:"lima"`
		Socket string `yaml:"socket"`
	} `yaml:"networks"`
}

// limaName is what Lima takes as a name, so no other can be one.
var limaName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`) })

func unmarshalYAML(b []byte, out any) error { return yaml.Unmarshal(b, out) }

// A limaHome is a directory that Lima keeps instances in, for itself or for a tool that has Lima built in.
type limaHome struct{ tool, dir string }

// findLima looks for networks and instances in every home of Lima.
func (f *finder) findLima() {
	var homes []limaHome
	if dir := f.env("LIMA_HOME"); filepath.IsAbs(dir) {
		homes = append(homes, limaHome{"lima", filepath.Clean(dir)})
	}
	for _, home := range f.Homes {
		homes = append(
			homes,
			limaHome{"lima", filepath.Join(home, ".lima")},
			limaHome{"rancher-desktop", filepath.Join(home, "Library/Application Support/rancher-desktop/lima")},
		)
	}
	homes = append(homes, limaHome{"finch", "/Applications/Finch/lima/data"})
	for i, h := range homes {
		if slices.Index(homes, h) == i {
			f.findLimaIn(h)
		}
	}
}

func (f *finder) findLimaIn(h limaHome) {
	f.readNetworks(h)
	for _, name := range f.list(h.dir) {
		if limaName().MatchString(name) {
			f.readInstance(h, name)
		}
	}
}

// readNetworks reads a networks.yaml, and the sudoers file that belongs to it.
func (f *finder) readNetworks(h limaHome) {
	path := filepath.Join(h.dir, "_config/networks.yaml")
	c, ok := decode[limaConfig](f, path, "YAML", unmarshalYAML)
	if !ok {
		return
	}
	if c.Paths.SocketVMNet != "" {
		f.addNamed(c.Paths.SocketVMNet, clean(path))
	}
	state := f.sudoersState(c)
	for _, name := range sortedNetworks(c) {
		nw := c.Networks[name]
		f.plan.Networks = append(f.plan.Networks, Network{
			Tool: h.tool, Config: clean(path), Name: clean(name), Group: clean(c.Group), Sudoers: clean(c.Paths.Sudoers), State: state,
			daemonArgs: limaArgs(c, name, nw),
		})
	}
}

// limaArgs is what the daemon of a network is started with.
func limaArgs(c limaConfig, name string, nw limaNetwork) daemonArgs {
	d := parseArgs(strings.Split(limaStart(c, name, nw), " "))
	d.Program, d.Mode, d.Interface = clean(c.Paths.SocketVMNet), clean(nw.Mode), clean(nw.Interface)
	d.Socket, d.Pidfile = clean(filepath.Join(c.Paths.VarRun, "socket_vmnet."+name)), clean(limaPidfile(c, name))
	return d
}

// sortedNetworks are the names of the networks that have a daemon.
func sortedNetworks(c limaConfig) []string {
	var names []string
	for name, nw := range c.Networks {
		if nw.Mode != "user-v2" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxEntries)]
}

func limaPidfile(c limaConfig, name string) string {
	return filepath.Join(c.Paths.VarRun, name+"_socket_vmnet.pid")
}

// limaStart is the command line that Lima starts a network's daemon with, and that its sudoers file allows.
func limaStart(c limaConfig, name string, nw limaNetwork) string {
	line := fmt.Sprintf("%s --pidfile=%s --socket-group=%s --vmnet-mode=%s", c.Paths.SocketVMNet, limaPidfile(c, name), c.Group, nw.Mode)
	if nw.Mode == "bridged" {
		line += " --vmnet-interface=" + nw.Interface
	} else {
		line += fmt.Sprintf(" --vmnet-gateway=%s --vmnet-dhcp-end=%s --vmnet-mask=%s", nw.Gateway, nw.DHCPEnd, nw.NetMask)
	}
	return line + " " + filepath.Join(c.Paths.VarRun, "socket_vmnet."+name)
}

// limaSudoers is the sudoers file that Lima asks for.
func limaSudoers(c limaConfig) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%%%s ALL=(root:wheel) NOPASSWD:NOSETENV: /bin/mkdir -m 775 -p %s\n", c.Group, c.Paths.VarRun)
	for _, name := range sortedNetworks(c) {
		fmt.Fprintf(&b, "\n# Manage %q network daemons\n\n%%%s ALL=(root:wheel) NOPASSWD:NOSETENV: \\\n    %s, \\\n    /usr/bin/pkill -F %s\n",
			name, c.Group, limaStart(c, name, c.Networks[name]), limaPidfile(c, name))
	}
	return b.String()
}

func (f *finder) sudoersState(c limaConfig) string {
	if c.Paths.Sudoers == "" {
		return ""
	}
	known := len(f.plan.Problems)
	b := f.read(c.Paths.Sudoers)
	switch {
	case b == nil && len(f.plan.Problems) > known:
		return SudoersUnreadable
	case b == nil:
		return SudoersMissing
	case string(b) == limaSudoers(c):
		return SudoersInSync
	}
	return SudoersOutOfSync
}

// readInstance reads a lima.yaml. An instance has a machine for each network of a daemon: it may be attached to several.
func (f *finder) readInstance(h limaHome, name string) {
	dir := filepath.Join(h.dir, name)
	c, ok := decode[limaInstance](f, filepath.Join(dir, "lima.yaml"), "YAML", unmarshalYAML)
	if !ok {
		return
	}
	for _, nw := range c.Networks[:min(len(c.Networks), 32)] {
		socket := nw.Socket
		if nw.Lima != "" {
			i := slices.IndexFunc(f.plan.Networks, func(n Network) bool {
				return n.Name == nw.Lima && filepath.Dir(filepath.Dir(n.Config)) == clean(h.dir)
			})
			if i < 0 {
				continue // a user-v2 network, or one that networks.yaml does not have
			}
			f.plan.Networks[i].used = true
			socket = f.plan.Networks[i].Socket
		}
		if socket == "" {
			continue
		}
		m := Machine{Tool: h.tool, Name: name, Home: clean(h.dir), VM: clean(c.VMType), Network: clean(nw.Lima), Socket: clean(socket)}
		m.PID, m.Running = f.runningPID(dir, "qemu.pid", "krunkit.pid", "vz.pid", "ha.pid")
		f.limaRestart(h, &m)
		f.addMachine(m)
	}
}

// limaRestart says how an instance is restarted.
func (f *finder) limaRestart(h limaHome, m *Machine) {
	limactl := []string{"limactl"}
	switch h.tool {
	case "lima":
		if !slices.ContainsFunc(f.Homes, func(home string) bool { return filepath.Join(home, ".lima") == h.dir }) {
			limactl = []string{"env", "LIMA_HOME=" + h.dir, "limactl"}
		}
	case "finch":
		m.stop, m.start = "finch vm stop", "finch vm start"
		return
	case "rancher-desktop":
		m.stop, m.start = "rdctl shutdown", "rdctl start"
		return
	}
	m.stop = command(append(slices.Clone(limactl), "stop", m.Name)...)
	m.start = command(append(slices.Clone(limactl), "start", m.Name)...)
}

// runningPID is the process in the first of these pidfiles, as far as it runs.
func (f *finder) runningPID(dir string, names ...string) (pid int, running bool) {
	for _, name := range names {
		b := f.read(filepath.Join(dir, name))
		if b == nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || pid <= 0 {
			continue
		}
		if !f.asked || f.process(pid) != nil {
			return pid, true
		}
	}
	return 0, false
}
