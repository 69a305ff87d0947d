// SPDX-License-Identifier: Apache-2.0

package find

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// A Move is what to type to have socket_vmnet2 in place of one program.
type Move struct {
	Program string   `json:"program"`
	Why     string   `json:"why"`
	Lines   []string `json:"lines"` // commands, and comments that begin with #; none: nothing is to be done
}

// A mover makes the moves of an inventory.
type mover struct {
	*Inventory
	program string   // the socket_vmnet2 that the lines call
	lines   []string // of all moves so far
	served  []string // sockets that the lines make jobs for
}

// Moves are the lines that move each program's jobs, networks and clients to socket_vmnet2, for the system that was looked at.
func (v *Inventory) Moves(program string) []Move {
	m := &mover{Inventory: v, program: program}
	moves := []Move{}
	for _, p := range v.Programs {
		why, lines := m.move(p)
		m.lines = append(m.lines, lines...)
		moves = append(moves, Move{p.Path, why, append([]string{}, lines...)})
	}
	return moves
}

// inPlace tells whether a program is replaced. One that a package manager keeps, or that others can change, stays: ours go to
// DefaultPrefix and serve the same sockets, so that clients need no change.
func (p program) inPlace() bool {
	return p.Kind == KindUpstream || p.Kind == KindColima || p.Kind == kindOther && p.Unsafe == "" && p.Missing == ""
}

// move says what becomes of a program, and the lines for it.
func (m *mover) move(p program) (why string, lines []string) {
	switch {
	case p.Kind == kindRancher, p.Kind == kindFinch:
		return "is left alone: " + p.Kind + " compares it with the one that it was built with, and puts that back", nil
	case p.Ours:
		return "is socket_vmnet2; a newer one comes in with socket_vmnet2 upgrade SOCKET, which disconnects no client", nil
	case p.inPlace():
		return "is replaced where it is; what runs goes on until it is restarted", append(m.install(p.Prefix), m.between(p, m.change(p, p.Path))...)
	case len(m.Served(p)) == 0 && !slices.ContainsFunc(m.Servers, func(d server) bool { return p.uses(d.Program) }):
		return "is run by nothing here; its socket_vmnet_client, which minikube uses, works with either daemon", nil
	case p.Missing != "":
		why = "has gone; what is installed to " + DefaultPrefix + " serves its sockets instead"
	default:
		why = "stays, since its package manager would put it back or others than root can change it; " + DefaultPrefix + " serves its sockets instead"
	}
	own := m.programAt(DefaultPrefix + "/bin/socket_vmnet")
	if own == nil || !own.Ours {
		lines = m.install(DefaultPrefix)
	}
	return why, append(lines, m.between(p, m.change(p, DefaultPrefix+"/bin/socket_vmnet"))...)
}

// install is the line that installs to a prefix, once.
func (m *mover) install(prefix string) []string {
	line := "sudo " + printable.Command(m.program, "install")
	if prefix != DefaultPrefix {
		line += " " + printable.Command("--prefix="+prefix)
	}
	if slices.Contains(m.lines, line) {
		return nil
	}
	return []string{line}
}

// between has a program's clients that run stopped before lines, and started behind them.
func (m *mover) between(p program, lines []string) []string {
	sockets := m.Served(p)
	var stops, starts []string
	for _, c := range m.Clients {
		uses := p.Kind == KindColima && c.Tool == "colima" || slices.ContainsFunc(sockets, func(s string) bool { return SamePath(s, c.Socket) })
		switch {
		case !uses || !c.Running || slices.Contains(stops, c.Stop):
		case c.Stop == "":
			starts = append(starts, fmt.Sprintf("# %s (%s) has to be restarted, unless it reconnects", c.Name, c.Tool))
		default:
			stops, starts = append(stops, c.Stop), append(starts, c.Start)
		}
	}
	return slices.Concat(stops, lines, starts)
}

// change are the lines after which the program at path serves what p does: by its jobs, by daemons that nothing else restarts, and
// for Lima, which has to be told where it is.
func (m *mover) change(p program, path string) (lines []string) {
	for _, j := range m.Jobs {
		switch {
		case !p.uses(j.Program) || j.State == NotLoaded:
		case p.Path == path:
			lines = append(lines, sudo(!j.User())+printable.Command("launchctl", "kickstart", "-k", j.Target()))
		default:
			lines = append(lines, m.moveJob(j)...)
		}
	}
	for _, d := range m.Servers {
		if p.uses(d.Program) && d.StartedBy == byHand {
			lines = append(lines, sudo(d.UID == 0)+"kill "+strconv.Itoa(d.PID), sudo(d.UID == 0)+printable.Command(append([]string{path}, d.Args[1:]...)...)+" &")
		}
	}
	var configs []string
	for _, n := range m.Networks {
		if p.Path == path || !p.uses(n.Program) || n.Tool != "lima" || slices.Contains(configs, n.Config) {
			continue
		}
		configs = append(configs, n.Config)
		lines = append(lines, fmt.Sprintf(`sed -i.before-socket_vmnet2 's|^\( *socketVMNet:\).*|\1 "%s"|' %s`, path, printable.Quote(n.Config)))
		if n.Sudoers != "" && n.State != SudoersMissing {
			lines = append(lines, LimaSudoers(n.Sudoers))
		}
	}
	return lines
}

// sudo begins a line that root has to run.
func sudo(root bool) string {
	if root {
		return "sudo "
	}
	return ""
}

// moveJob stops a job for good, and has one of ours serve its socket, unless there is one.
func (m *mover) moveJob(j Job) []string {
	stop, managed := j.Stop()
	lines := []string{stop}
	if !managed {
		lines = append(lines, sudo(!j.User())+printable.Command("mv", j.Path, j.Path+".before-socket_vmnet2"))
	}
	served := func(o Job) bool {
		q := m.programAt(o.Program)
		return o.Label != j.Label && SamePath(o.Socket, j.Socket) && q != nil && (q.Ours || q.inPlace())
	}
	if slices.Contains(m.served, public(j.Socket)) || slices.ContainsFunc(m.Jobs, served) {
		return lines
	}
	m.served = append(m.served, public(j.Socket))
	words := []string{DefaultPrefix + "/bin/socket_vmnet2", "service", "install"}
	if n := len(m.served); n > 1 || slices.ContainsFunc(m.Jobs, func(o Job) bool { return o.Label == "io.github.socket-vmnet2.socket_vmnet2" }) {
		words = append(words, fmt.Sprintf("--name=%s%d", j.Owner, n))
	}
	return append(lines, "sudo "+printable.Command(append(append(words, "--"), j.Args[1:]...)...))
}

// WriteText writes the inventory and the moves for a person, in lines of so many characters. A command is one line, and each line between
// them a comment, so that all can be pasted.
func (v *Inventory) WriteText(w io.Writer, moves []Move, width int) error {
	var b strings.Builder
	row := func(what, format string, args ...any) {
		b.WriteString(printable.Hang(fmt.Sprintf("%-8s ", what), fmt.Sprintf(format, args...), width) + "\n")
	}
	comment := func(text string) {
		b.WriteString("# " + strings.Join(printable.Wrap(text, width-2), "\n# ") + "\n")
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
		b.WriteString("\n")
		comment(m.Program + " " + m.Why + ".")
		for _, line := range m.Lines {
			b.WriteString(line + "\n")
		}
	}
	if len(moves) == 0 {
		b.WriteString(printable.Hang("", "No socket_vmnet was found that could be moved. To see socket_vmnet2 at work without installing it: socket_vmnet2 try", width) + "\n")
	} else {
		b.WriteString("\n")
		comment("Nothing has been changed: this is what to type. What is in the way already: socket_vmnet2 doctor. " +
			"What guests notice, and the way back (socket_vmnet2 rollback): MIGRATION.md.")
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
	return printable.Behind(", ", s.Mode) + printable.Behind(" on ", s.Interface) + printable.Behind(" ", printable.Valid(s.Gateway)) +
		printable.Behind(" at ", s.Socket)
}
