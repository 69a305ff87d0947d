// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// findConnected asks lsof who has a connection to a daemon: a machine that was given an open connection does not name the
// socket in its command line.
func (f *finder) findConnected() {
	if f.Run == nil || f.GOOS != "darwin" || len(f.plan.Daemons) == 0 {
		return
	}
	out, err := f.run(10*time.Second, "lsof", "-nP", "-U", "-F", "pdn")
	if err != nil && len(out) == 0 {
		if !notThere(err) {
			f.problem("lsof", err)
		}
		return
	}
	for _, c := range connected(string(out), f.plan.Daemons) {
		if slices.ContainsFunc(f.plan.Machines, func(m Machine) bool { return m.PID == c.pid }) {
			continue
		}
		m := Machine{Tool: "process", Name: "process " + strconv.Itoa(c.pid), Running: true, PID: c.pid, Socket: c.socket, Attach: AttachOther}
		if p := f.process(c.pid); p != nil {
			m.Name = vmName(*p)
			if tool := vmmOf(p.Args[0]); tool != "" {
				m.Tool, m.VM = tool, tool
			}
			if m.Tool == "qemu" {
				m.Attach = qemuAttach(p.Args, c.socket)
			}
		}
		f.addMachine(m)
	}
}

type connection struct {
	pid    int
	socket string
}

// connected reads lsof's fields: a socket has an address d, and the other end of a connection is named "->" and the address.
func connected(out string, daemons []Daemon) []connection {
	type end struct {
		pid       int
		addr, rem string
	}
	var ends []end
	pid := 0
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			continue
		}
		switch value := line[1:]; line[0] {
		case 'p':
			pid, _ = strconv.Atoi(value)
		case 'f':
			ends = append(ends, end{pid: pid})
		case 'd':
			if len(ends) > 0 {
				ends[len(ends)-1].addr = value
			}
		case 'n':
			if to, ok := strings.CutPrefix(value, "->"); ok && len(ends) > 0 {
				ends[len(ends)-1].rem = to
			}
		}
	}
	of := map[string]int{} // daemons by the addresses of their sockets
	for _, e := range ends {
		if i := slices.IndexFunc(daemons, func(d Daemon) bool { return d.PID == e.pid }); i >= 0 && e.addr != "" {
			of[e.addr] = i
		}
	}
	var all []connection
	for _, e := range ends {
		if i, ok := of[e.rem]; ok && e.rem != "" && e.pid != daemons[i].PID {
			all = append(all, connection{e.pid, daemons[i].Socket})
		}
	}
	slices.SortFunc(all, func(a, b connection) int { return a.pid - b.pid })
	return slices.Compact(all)
}
