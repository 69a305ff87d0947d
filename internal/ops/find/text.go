// SPDX-License-Identifier: Apache-2.0

package find

import (
	"fmt"
	"io"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// WriteText writes the inventory and the moves for a person.
func (v *Inventory) WriteText(w io.Writer, moves []Move) error {
	var b strings.Builder
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-8s %s\n", what, fmt.Sprintf(format, args...))
	}
	for _, p := range v.Programs {
		row("program", "%s", p)
	}
	for _, j := range v.Jobs {
		row("job", "%s%s%s", j.Label, j.text(), printable.Behind("; ", j.State))
	}
	for _, u := range v.Units {
		row("unit", "%s%s", u.Name, printable.Behind("; ", u.Active))
	}
	for _, n := range v.Networks {
		row("network", "%s: %s%s%s", n.Tool, n.Name, n.text(), printable.Behind("; sudoers file ", n.State))
	}
	for _, d := range v.Servers {
		row("daemon", "process %d of %s, started by %s%s", d.PID, d.Program, d.StartedBy, d.text())
	}
	for _, c := range v.Clients {
		state := "does not run"
		if c.Running {
			state = fmt.Sprintf("process %d", c.PID)
		}
		row("client", "%s %s%s at %s; %s", c.Tool, c.Name, printable.Behind(", ", c.VM), c.Socket, state)
	}
	for _, p := range v.Problems {
		row("unread", "%s: %s%s", p.Path, p.Error, map[bool]string{true: "; run this again with sudo"}[p.Root])
	}
	for _, m := range moves {
		fmt.Fprintf(&b, "\n# %s %s.\n", m.Program, m.Why)
		for _, line := range m.Lines {
			b.WriteString(line + "\n")
		}
	}
	if len(moves) == 0 {
		b.WriteString("No socket_vmnet was found that could be moved. To see socket_vmnet2 at work without installing it: socket_vmnet2 try\n")
	} else {
		b.WriteString("\n# Nothing has been changed: this is what to type. What is in the way already: socket_vmnet2 doctor.\n" +
			"# What guests notice, and the way back (socket_vmnet2 rollback): MIGRATION.md.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String is a line about a program.
func (p program) String() string {
	if p.Missing != "" {
		return p.Path + " is not there, but " + p.Missing + " names it"
	}
	text := p.Path
	if p.Links != "" {
		text += " (a link to " + p.Links + ")"
	}
	if p.Fault != "" {
		return text + " " + p.Fault
	}
	text += " is socket_vmnet"
	if p.Ours {
		text += "2"
	}
	text += printable.Behind(" ", p.Version)
	if p.Kind != kindOther {
		text += " by " + p.Kind
	}
	return text
}

// text tells what a command line asks for, to stand behind the name of what has it.
func (s setup) text() string {
	text := printable.Behind(", ", s.Mode) + printable.Behind(" on ", s.Interface)
	if s.Gateway.IsValid() {
		text += " " + s.Gateway.String()
	}
	return text + printable.Behind(" at ", s.Socket)
}
