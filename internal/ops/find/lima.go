// SPDX-License-Identifier: Apache-2.0

package find

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// How far Lima's sudoers file is what Lima asks for.
const (
	SudoersInSync     = "in sync"
	SudoersOutOfSync  = "out of sync"
	SudoersMissing    = "missing"
	SudoersUnreadable = "not readable"
)

// A network is one that Lima, or a tool that has Lima built in, starts a daemon for, from a networks.yaml.
type network struct {
	Tool    string `json:"tool"` // lima, rancher-desktop or finch
	Config  string `json:"config"`
	Name    string `json:"name"`
	Sudoers string `json:"sudoers_file,omitempty"`
	State   string `json:"sudoers,omitempty"` // of that file
	setup
}

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

// maxYAML is how much of a YAML file is parsed, in bytes: the parser's time grows with the square of that, and this takes it a second.
const maxYAML = 16 << 10

// unmarshalYAML reads only what belongs to these keys: a file of Lima may have long scripts.
func unmarshalYAML(keys ...string) func([]byte, any) error {
	return func(b []byte, out any) error {
		var kept []byte
		wanted := false
		for line := range bytes.Lines(b) {
			if !strings.ContainsRune(" \t\r\n-#]}", rune(line[0])) { // else it continues what is above
				key, _, _ := bytes.Cut(line, []byte(":"))
				wanted = slices.Contains(keys, strings.Trim(string(key), `"' `))
			}
			if wanted && !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
				kept = append(kept, line...)
			}
		}
		if len(kept) > maxYAML {
			return fmt.Errorf("%s are longer than %d KiB", strings.Join(keys, " and "), maxYAML>>10)
		}
		return yaml.Unmarshal(kept, out)
	}
}

// findLima looks for networks and instances in every home of Lima, and of tools that have it built in.
func (f *search) findLima() {
	for _, dir := range f.under("LIMA_HOME", ".lima") {
		f.findLimaIn("lima", dir)
	}
	for _, dir := range f.under("", "Library/Application Support/rancher-desktop/lima") {
		f.findLimaIn("rancher-desktop", dir)
	}
	f.findLimaIn("finch", "/Applications/Finch/lima/data")
}

func (f *search) findLimaIn(tool, dir string) {
	f.readNetworks(tool, filepath.Join(dir, "_config/networks.yaml"))
	decodeEach(f, dir, "lima.yaml", unmarshalYAML("vmType", "networks"), func(name string, c limaInstance) { f.addInstance(tool, dir, name, c) })
}

// readNetworks reads a networks.yaml, and the sudoers file that belongs to it.
func (f *search) readNetworks(tool, path string) {
	c, ok := decode[limaConfig](f, path, unmarshalYAML("paths", "group", "networks"))
	if !ok {
		return
	}
	if c.Paths.SocketVMNet != "" {
		f.addNamed(c.Paths.SocketVMNet, Clean(path))
	}
	state := ""
	if tool == "lima" {
		state = f.sudoersState(c)
	}
	for _, name := range c.names() {
		nw := c.Networks[name]
		s := setupOf(strings.Split(c.start(name), " "))
		s.Program, s.Mode, s.Interface = Clean(c.Paths.SocketVMNet), Clean(nw.Mode), Clean(nw.Interface)
		s.Socket, s.Pidfile = Clean(filepath.Join(c.Paths.VarRun, "socket_vmnet."+name)), Clean(c.pidfile(name))
		s.By = tool + "'s network " + Clean(name)
		f.Networks = append(f.Networks, network{tool, Clean(path), Clean(name), Clean(c.Paths.Sudoers), state, s})
	}
}

// names are those of the networks that have a daemon.
func (c limaConfig) names() (names []string) {
	for name, nw := range c.Networks {
		if nw.Mode != "user-v2" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxEntries)]
}

func (c limaConfig) pidfile(name string) string {
	return filepath.Join(c.Paths.VarRun, name+"_socket_vmnet.pid")
}

// start is the command line that Lima starts a network's daemon with, and that its sudoers file allows.
func (c limaConfig) start(name string) string {
	nw := c.Networks[name]
	line := fmt.Sprintf("%s --pidfile=%s --socket-group=%s --vmnet-mode=%s", c.Paths.SocketVMNet, c.pidfile(name), c.Group, nw.Mode)
	if nw.Mode == "bridged" {
		line += " --vmnet-interface=" + nw.Interface
	} else {
		line += fmt.Sprintf(" --vmnet-gateway=%s --vmnet-dhcp-end=%s --vmnet-mask=%s", nw.Gateway, nw.DHCPEnd, nw.NetMask)
	}
	return line + " " + filepath.Join(c.Paths.VarRun, "socket_vmnet."+name)
}

// sudoers is the file that Lima asks for.
func (c limaConfig) sudoers() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%%%s ALL=(root:wheel) NOPASSWD:NOSETENV: /bin/mkdir -m 775 -p %s\n", c.Group, c.Paths.VarRun)
	for _, name := range c.names() {
		fmt.Fprintf(&b, "\n# Manage %q network daemons\n\n%%%s ALL=(root:wheel) NOPASSWD:NOSETENV: \\\n    %s, \\\n    /usr/bin/pkill -F %s\n",
			name, c.Group, c.start(name), c.pidfile(name))
	}
	return b.String()
}

// sudoersState compares the file that is there with that.
func (f *search) sudoersState(c limaConfig) string {
	if c.Paths.Sudoers == "" {
		return ""
	}
	b, err := f.ReadFile(c.Paths.Sudoers, maxFile)
	f.problem(c.Paths.Sudoers, err)
	switch {
	case err != nil && Absent(err):
		return SudoersMissing
	case err != nil:
		return SudoersUnreadable
	case string(b) == c.sudoers():
		return SudoersInSync
	}
	return SudoersOutOfSync
}

// LimaSudoers is how Lima says to install its sudoers file: a limactl that fails leaves it as it is.
func LimaSudoers(file string) string {
	return "limactl sudoers >etc_sudoers.d_lima && sudo install -o root -m 0440 etc_sudoers.d_lima " + printable.Quote(file)
}

// maxAttached bounds how many networks of one instance are looked at.
const maxAttached = 32

// addInstance adds an instance as a client of each network of a daemon that it is attached to.
func (f *search) addInstance(tool, home, name string, c limaInstance) {
	for _, nw := range c.Networks[:min(len(c.Networks), maxAttached)] {
		m := client{Tool: tool, Name: name, VM: Clean(c.VMType), Network: Clean(nw.Lima), Socket: Clean(nw.Socket)}
		if nw.Lima != "" {
			i := slices.IndexFunc(f.Networks, func(n network) bool {
				return n.Name == nw.Lima && n.Config == Clean(filepath.Join(home, "_config/networks.yaml"))
			})
			if i < 0 {
				continue // a user-v2 network, or one that networks.yaml does not have
			}
			m.Socket = f.Networks[i].Socket
		}
		if m.Socket == "" {
			continue
		}
		limactl := []string{"limactl"}
		if !slices.Contains(f.under("", ".lima"), home) {
			limactl = []string{"env", "LIMA_HOME=" + home, "limactl"}
		}
		switch tool {
		case "finch":
			m.Stop, m.Start = "finch vm stop", "finch vm start"
		case "rancher-desktop":
			m.Stop, m.Start = "rdctl shutdown", "rdctl start"
		default:
			m.Stop, m.Start = printable.Command(append(limactl, "stop", name)...), printable.Command(append(limactl, "start", name)...)
		}
		f.addClient(m, filepath.Join(home, name))
	}
}
