// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A tryLine tells how one program is made to use the network.
type tryLine struct {
	For  string `json:"for"`            // a short name, for scripts
	What string `json:"what"`           // as a person calls it
	Use  string `json:"use,omitempty"`  // lines to copy; empty: it cannot be used, and the note says why
	Undo string `json:"undo,omitempty"` // what to do afterwards
	Note string `json:"note,omitempty"`
}

// A tryReady is what is told when the network can be used.
type tryReady struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Backend string    `json:"backend"`
	Mode    string    `json:"mode"`
	Subnet  string    `json:"subnet,omitempty"`
	Gateway string    `json:"gateway,omitempty"`
	DHCPEnd string    `json:"dhcp_end,omitempty"`
	Socket  string    `json:"socket"`
	Dgram   string    `json:"dgram,omitempty"`  // of datagram clients
	Client  string    `json:"client,omitempty"` // path of socket_vmnet_client
	Lines   []tryLine `json:"lines"`
}

// text is r for a person, with the lines for programs that are here, or as a line of JSON, with all.
func (r tryReady) text(asJSON bool, here []string) string {
	if asJSON {
		return jsonString(r) + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The network is ready: %s on %s\n", r.Socket, r.Backend)
	if r.Subnet != "" {
		fmt.Fprintf(&b, "Mode %s, subnet %s, this host is %s\n", r.Mode, r.Subnet, r.Gateway)
	} else {
		fmt.Fprintf(&b, "Mode %s\n", r.Mode)
	}
	for _, l := range r.Lines {
		if !slices.Contains(here, l.For) {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", l.What)
		for line := range strings.SplitSeq(l.Use, "\n") {
			if line != "" {
				fmt.Fprintf(&b, "    %s\n", line)
			}
		}
		if l.Undo != "" {
			fmt.Fprintf(&b, "  undo: %s\n", l.Undo)
		}
		if l.Note != "" {
			fmt.Fprintf(&b, "  note: %s\n", l.Note)
		}
	}
	b.WriteString("\nThat is for what is installed here; with --json there are lines for all programs. Two guests need two MAC addresses.\n" +
		"Nothing that is installed was touched. Ctrl-C ends the network and removes it.\n\n")
	return printable.Lines(b.String())
}

// describe tells of the network that is served.
func (t *trial) describe(info network.Info, datagrams bool) tryReady {
	r := tryReady{
		Version: compat.Version, PID: os.Getpid(), Backend: info.Backend, Mode: string(info.Mode),
		Socket: t.cfg.SocketPath, Client: clientProgram(os.Executable),
	}
	if info.Subnet.IsValid() {
		r.Subnet, r.Gateway = info.Subnet.String(), info.Gateway.String()
	}
	if info.DHCPEnd.IsValid() {
		r.DHCPEnd = info.DHCPEnd.String()
	}
	if datagrams {
		r.Dgram = r.Socket + ".d" + compat.LongestRuntimePath
	}
	r.Lines = tryLines(r, runtime.GOOS, randomMAC())
	return r
}

// clientProgram is the socket_vmnet_client beside this program, or beside what a link to it leads to; empty if there is none.
func clientProgram(executable func() (string, error)) string {
	program, err := executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	client, _ := exec.LookPath(filepath.Join(filepath.Dir(program), "socket_vmnet_client"))
	return client
}

// randomMAC is a MAC address for one guest out of QEMU's range.
func randomMAC() net.HardwareAddr {
	m := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 0}
	_, _ = rand.Read(m[3:])
	return m
}

// tryGuest names what the lines make for a trial only.
const tryGuest = "socket-vmnet2-try"

// minikubeHost is where minikube's qemu driver takes the host to be on any socket_vmnet network (pkg/minikube/cluster/ip.go).
const minikubeHost = "192.168.105.1"

// tryLines are the lines for all programs that can be on this system.
func tryLines(r tryReady, goos string, mac net.HardwareAddr) []tryLine {
	quote := printable.Quote
	device := "-device virtio-net-pci,netdev=n0,mac=" + mac.String()
	stream := "stream,id=n0,server=off,addr.type=unix,addr.path=" + strings.ReplaceAll(r.Socket, ",", ",,")
	lines := []tryLine{
		{
			"lima-yaml", "Lima, in a machine's lima.yaml", "networks:\n- socket: " + jsonString(r.Socket),
			"take these lines out again and start the machine again", "",
		},
		{"lima", "Lima, a new machine for the trial", "limactl start --tty=false --name=" + tryGuest + " --set=" +
			quote(`.networks=[{"socket":`+jsonString(r.Socket)+"}]"), "limactl delete --force " + tryGuest, ""},
		{"qemu", "QEMU 7.2 and newer", device + " -netdev " + quote(stream), "remove these options again", ""},
		{
			"qemu-old", "any older QEMU", quote(r.Client) + " " + quote(r.Socket) + " qemu-system-... " + device + " -netdev socket,id=n0,fd=3",
			"start QEMU as before", "",
		},
	}
	if goos == "darwin" { // where alone minikube has the network socket_vmnet
		lines = append(lines, tryLine{
			"minikube", "minikube with the qemu driver, a new cluster for the trial", "minikube start --profile=" + tryGuest +
				" --driver=qemu --network=socket_vmnet --socket-vmnet-path=" + quote(r.Socket) + " --socket-vmnet-client-path=" + quote(r.Client),
			"minikube delete --profile=" + tryGuest, "host.minikube.internal leads to this host only while it is " + minikubeHost +
				": stop socket_vmnet and try with --vmnet-gateway=" + minikubeHost,
		})
	}
	if goos == "darwin" && r.Dgram != "" {
		lines = append(lines,
			tryLine{
				"vfkit", "vfkit", "vfkit ... --device " + quote("virtio-net,unixSocketPath="+r.Dgram+",mac="+mac.String()),
				"remove the option again", "",
			},
			tryLine{
				"krunkit", "krunkit", "krunkit ... --device " + quote("virtio-net,type=unixgram,path="+r.Dgram+",mac="+mac.String()),
				"remove the option again", "",
			})
	}
	for i, l := range lines {
		if why := r.unusable(l.For); why != "" {
			lines[i] = tryLine{For: l.For, What: l.What, Note: why}
		}
	}
	return lines
}

// unusable tells why a program cannot use the network, empty if it can.
func (r tryReady) unusable(program string) string {
	switch {
	case program == "minikube" && r.Backend != string(compat.BackendVmnet):
		return "minikube looks for its guests in /var/db/dhcpd_leases, where only vmnet's DHCP server writes: leave --backend out"
	case (program == "minikube" || program == "qemu-old") && r.Client == "":
		return "it needs socket_vmnet_client, and there is none beside this program; \"make\" builds both into one directory"
	}
	return ""
}

// programsHere are the names of the lines for what is installed, or those of QEMU if nothing is.
func programsHere() (here []string) {
	qemu := []string{"qemu", "qemu-old"}
	for program, lines := range map[string][]string{
		"limactl": {"lima-yaml", "lima"}, "minikube": {"minikube"}, "vfkit": {"vfkit"}, "krunkit": {"krunkit"},
		"qemu-system-x86_64": qemu, "qemu-system-aarch64": qemu,
	} {
		if installed(program) != "" {
			here = append(here, lines...)
		}
	}
	if len(here) == 0 {
		return qemu
	}
	return here
}

// installed is where a program is; sudo may not know where Homebrew puts it.
func installed(program string) string {
	for _, dir := range []string{"", "/opt/homebrew/bin", "/usr/local/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	return ""
}

// jsonString is v in JSON.
func jsonString(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
