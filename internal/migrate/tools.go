// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
)

// colimaConfig is what matters here of a profile's colima.yaml.
type colimaConfig struct {
	VMType  string `yaml:"vmType"`
	Network struct {
		Address   bool   `yaml:"address"`
		Mode      string `yaml:"mode"`
		Interface string `yaml:"interface"`
	} `yaml:"network"`
}

// findColima looks for the profiles that have an address of their own, as far as that is by socket_vmnet.
func (f *finder) findColima() {
	var dirs []string
	if dir := f.env("COLIMA_HOME"); filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Clean(dir))
	}
	for _, home := range f.Homes {
		dirs = append(dirs, filepath.Join(home, ".colima"), filepath.Join(home, ".config/colima"))
	}
	for i, dir := range dirs {
		if slices.Index(dirs, dir) != i {
			continue
		}
		for _, name := range f.list(dir) {
			if limaName().MatchString(name) {
				f.readColima(dir, name)
			}
		}
	}
}

func (f *finder) readColima(dir, name string) {
	c, ok := decode[colimaConfig](f, filepath.Join(dir, name, "colima.yaml"), "YAML", unmarshalYAML)
	// With VZ and without a bridge Colima uses what VZ has itself.
	if !ok || !c.Network.Address || c.VMType == "vz" && c.Network.Mode != "bridged" {
		return
	}
	instance := "colima"
	if name != "default" {
		instance += "-" + name
	}
	m := Machine{Tool: "colima", Name: name, Home: clean(dir), VM: clean(c.VMType), Socket: clean(filepath.Join(dir, name, "daemon/vmnet.sock"))}
	m.PID, m.Running = f.runningPID(filepath.Join(dir, "_lima", instance), "qemu.pid", "krunkit.pid", "vz.pid", "ha.pid")
	m.stop, m.start = command("colima", "stop", name), command("colima", "start", name)
	f.addMachine(m)
}

// minikubeConfig is what matters here of a profile's config.json.
type minikubeConfig struct {
	Driver                string
	Network               string
	SocketVMnetPath       string
	SocketVMnetClientPath string
}

// minikubeSockets is where minikube looks for a socket by itself, in this order.
var minikubeSockets = []string{"/var/run/socket_vmnet", "/opt/homebrew/var/run/socket_vmnet", "/usr/local/var/run/socket_vmnet"}

// findMinikube looks for the profiles that are on a socket_vmnet.
func (f *finder) findMinikube() {
	var dirs []string
	if dir := f.env("MINIKUBE_HOME"); filepath.IsAbs(dir) {
		if filepath.Base(dir) != ".minikube" {
			dir = filepath.Join(dir, ".minikube")
		}
		dirs = append(dirs, filepath.Clean(dir))
	}
	for _, home := range f.Homes {
		dirs = append(dirs, filepath.Join(home, ".minikube"))
	}
	for i, dir := range dirs {
		if slices.Index(dirs, dir) != i {
			continue
		}
		for _, name := range f.list(filepath.Join(dir, "profiles")) {
			if limaName().MatchString(name) {
				f.readMinikube(dir, name)
			}
		}
	}
}

func (f *finder) readMinikube(dir, name string) {
	c, ok := decode[minikubeConfig](f, filepath.Join(dir, "profiles", name, "config.json"), "JSON", json.Unmarshal)
	if !ok || !strings.HasPrefix(c.Driver, "qemu") || c.Network != "socket_vmnet" && c.SocketVMnetPath == "" {
		return
	}
	socket := c.SocketVMnetPath
	if socket == "" {
		socket = f.firstOf(minikubeSockets)
	}
	m := Machine{Tool: "minikube", Name: name, Home: clean(dir), VM: "qemu", Socket: clean(socket)}
	m.PID, m.Running = f.runningPID(filepath.Join(dir, "machines", name), "qemu.pid")
	m.stop, m.start = command("minikube", "stop", "--profile="+name), command("minikube", "start", "--profile="+name)
	if client := c.SocketVMnetClientPath; client != "" && f.stat(client) == nil {
		f.conflict(Conflict{
			Kind: "missing-program", Text: "minikube's profile " + name + " names " + clean(client) + ", and no such program is there",
			Fix: "start it with --socket-vmnet-client-path=" + DefaultPrefix + "/bin/socket_vmnet_client",
		})
	}
	f.addMachine(m)
}

// firstOf is the first of these paths that exists, or the first.
func (f *finder) firstOf(paths []string) string {
	for _, p := range paths {
		if f.stat(p) != nil {
			return p
		}
	}
	return paths[0]
}
