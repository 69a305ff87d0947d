// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"path/filepath"
	"slices"
	"strings"
)

// addMachine completes a machine: how it is attached, and what a restart of its daemon means for it.
func (f *finder) addMachine(m Machine) {
	if m.Attach == "" {
		m.Attach = f.attachOf(m)
	}
	m.Effect, m.Outage, m.Why = effectOf(m)
	if m.stop != "" {
		m.Restart = m.stop + " && " + m.start
	}
	f.plan.Machines = append(f.plan.Machines, m)
}

// attachOf tells from its kind and its command line how a machine is attached.
func (f *finder) attachOf(m Machine) string {
	if p := f.process(m.PID); p != nil && strings.HasPrefix(filepath.Base(p.Args[0]), "qemu-system-") {
		return qemuAttach(p.Args, m.Socket)
	}
	switch {
	case m.VM == "krunkit":
		return AttachKrunkit
	case m.VM == "vz":
		return AttachVZ
	case m.Tool == "minikube":
		return AttachDescriptor
	case m.VM == "qemu" && m.Network == "":
		return AttachDescriptor // Lima connects by itself for "socket:"
	case m.VM == "qemu":
		return AttachStream
	}
	return AttachOther
}

// qemuAttach reads QEMU's command line.
func qemuAttach(args []string, socket string) string {
	for _, arg := range args {
		if !strings.Contains(arg, "path="+socket) && !(socket != "" && strings.Contains(arg, "path="+public(socket))) {
			continue
		}
		if strings.Contains(arg, "reconnect-ms=") || strings.Contains(arg, "reconnect=") {
			return AttachReconnect
		}
		return AttachStream
	}
	return AttachDescriptor
}

// effectOf is what a restart of its daemon means for a machine. The times are those of docs/reliability.md.
func effectOf(m Machine) (effect, outage, why string) {
	switch {
	case m.Tool == "rancher-desktop", m.Tool == "finch":
		return EffectNone, "none", "its tool keeps a socket_vmnet of its own, which is left alone"
	case !m.Running:
		return EffectNotRunning, "none", "it does not run, and uses the new daemon from its next start on"
	}
	switch m.Attach {
	case AttachReconnect:
		return EffectReconnects, "until the daemon listens again, and then up to about 1 s",
			"QEMU connects again by itself and keeps its address; if it only receives then, pause it for a moment (docs/reliability.md)"
	case AttachStream:
		return EffectRestart, "until the machine is restarted",
			"QEMU reconnects only where it was started with reconnect (Lima does that since its pull request 5027 of 2026, with QEMU 8.0 and later)"
	case AttachDescriptor:
		return EffectRestart, "until the machine is restarted",
			"QEMU holds a connection that somebody else opened, and cannot open it again"
	case AttachVZ:
		return EffectRestart, "until the machine is restarted", "Lima's VZ driver connects once, when the machine starts"
	case AttachKrunkit:
		return EffectRestart, "until the machine is restarted", "krunkit connects once, when the machine starts"
	}
	return EffectRestart, "until the machine is restarted", "how it is attached is not known; most programs connect once"
}

// findClients looks among the processes for programs that use a known socket and are no machine of a tool.
func (f *finder) findClients() {
	f.nameDaemons()
	sockets := f.sockets()
	for _, p := range f.processes {
		tool := vmmOf(p.Args[0])
		if tool == "" || slices.ContainsFunc(f.plan.Machines, func(m Machine) bool { return m.PID == p.PID }) {
			continue
		}
		for _, s := range sockets {
			if mentions(p.Args, s) {
				m := Machine{Tool: tool, Name: vmName(p), VM: tool, Running: true, PID: p.PID, Socket: s}
				switch tool {
				case "qemu":
					m.Attach = qemuAttach(p.Args, s)
				case "krunkit":
					m.Attach = AttachKrunkit
				}
				f.addMachine(m)
				break
			}
		}
	}
	f.findConnected()
}

// nameDaemons says who started the daemons that launchd did not.
func (f *finder) nameDaemons() {
	for i := range f.plan.Daemons {
		d := &f.plan.Daemons[i]
		if d.StartedBy != byHand {
			continue
		}
		if n := slices.IndexFunc(f.plan.Networks, func(n Network) bool { return samePath(n.Socket, d.Socket) }); n >= 0 {
			d.StartedBy = f.plan.Networks[n].Tool + " for its network " + f.plan.Networks[n].Name
		} else if strings.HasPrefix(d.Program, "/opt/colima/") {
			d.StartedBy = "colima"
		}
	}
}

// sockets are all that a daemon has or had.
func (f *finder) sockets() []string {
	var all []string
	add := func(s string) {
		if s != "" && !slices.ContainsFunc(all, func(a string) bool { return samePath(a, s) }) {
			all = append(all, s)
		}
	}
	for _, d := range f.plan.Daemons {
		add(d.Socket)
	}
	for _, j := range f.plan.Jobs {
		add(j.Socket)
	}
	for _, n := range f.plan.Networks {
		add(n.Socket)
	}
	return all
}

// vmmOf tells which machine monitor a program is.
func vmmOf(program string) string {
	switch base := filepath.Base(program); {
	case strings.HasPrefix(base, "qemu-system-"):
		return "qemu"
	case base == "krunkit", base == "vfkit", base == "tart", base == "softnet":
		return base
	}
	return ""
}

// mentions tells whether an argument names a socket, alone or as a value among others.
func mentions(args []string, socket string) bool {
	for _, arg := range args {
		for word := range strings.FieldsFuncSeq(arg, func(r rune) bool { return r == ',' || r == '=' }) {
			if samePath(word, socket) {
				return true
			}
		}
	}
	return false
}

// vmName is what QEMU calls its machine, or the process.
func vmName(p Process) string {
	if i := slices.Index(p.Args, "-name"); i >= 0 && i+1 < len(p.Args) {
		name, _, _ := strings.Cut(p.Args[i+1], ",")
		return clean(strings.TrimPrefix(name, "guest="))
	}
	return filepath.Base(clean(p.Args[0]))
}
