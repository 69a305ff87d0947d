// SPDX-License-Identifier: Apache-2.0

package find

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
)

// A Move is what to type to have socket_vmnet2 in place of one program.
type Move struct {
	Program string   `json:"program"`
	Why     string   `json:"why"`
	Lines   []string `json:"lines"` // commands, and comments that begin with #; none: nothing is to be done
}

// A mover makes the moves of an inventory.
type mover struct {
	System
	*Inventory
	lines  []string // of all moves so far
	labels []string // of jobs that the lines make
	served []string // sockets that these serve
}

// Moves are the lines that move each program's jobs, networks and clients to socket_vmnet2. They are for the system that was
// looked at.
func (v *Inventory) Moves(s System) []Move {
	m := &mover{System: s, Inventory: v}
	moves := []Move{}
	for _, p := range v.Programs {
		why, lines := m.move(p)
		m.lines = append(m.lines, lines...)
		moves = append(moves, Move{p.Path, why, append([]string{}, lines...)})
	}
	return moves
}

// move says what becomes of a program, and the lines for it.
func (m *mover) move(p Program) (why string, lines []string) {
	switch {
	case p.Kind == KindRancher, p.Kind == KindFinch:
		return "is left alone: " + p.Kind + " compares it with the one that it was built with, and puts that back", nil
	case p.Ours:
		return "is socket_vmnet2; a newer one comes in with socket_vmnet2 upgrade SOCKET, which disconnects no client", nil
	case p.inPlace():
		return "is replaced where it is; what runs goes on until it is restarted", m.replace(p)
	case !m.runs(p):
		return "is run by nothing here; its socket_vmnet_client, which minikube uses, works with either daemon", nil
	case p.Missing != "":
		return "has gone; what is installed to " + DefaultPrefix + " serves its sockets instead", m.aside(p)
	}
	return "stays, since its package manager would put it back or others than root can change it; " + DefaultPrefix + " serves its sockets instead", m.aside(p)
}

// inPlace tells whether a program is moved by replacing it: not what a package manager keeps, nor what others can change.
func (p Program) inPlace() bool {
	return p.Kind == KindUpstream || p.Kind == KindColima || p.Kind == KindOther && p.Unsafe == "" && p.Missing == ""
}

// runs tells whether something runs a program, or would.
func (m *mover) runs(p Program) bool {
	return len(m.Served(p)) > 0 || slices.ContainsFunc(m.Servers, func(d Server) bool { return p.Uses(d.Program) })
}

// replace are the lines for a program whose path stays.
func (m *mover) replace(p Program) []string {
	install := []string{m.Program, "install"}
	if p.Prefix != DefaultPrefix {
		install = append(install, "--prefix="+p.Prefix)
	}
	var lines []string
	for _, j := range m.Jobs {
		if p.Uses(j.Program) && j.State != NotLoaded {
			lines = append(lines, sudoIf(!j.User())+command("launchctl", "kickstart", "-k", j.Target()))
		}
	}
	return slices.Concat([]string{"sudo " + command(install...)}, m.between(p, append(lines, m.byHand(p, p.Path)...)))
}

// aside are the lines for a program that stays: ours go to DefaultPrefix and serve the same sockets, so that clients need no change.
func (m *mover) aside(p Program) []string {
	var lines, change []string
	if install := "sudo " + command(m.Program, "install"); !slices.Contains(m.lines, install) {
		if own := m.ProgramAt(DefaultPrefix + "/bin/socket_vmnet"); own == nil || !own.Ours {
			lines = append(lines, install)
		}
	}
	for _, j := range m.Jobs {
		if p.Uses(j.Program) {
			change = append(change, m.moveJob(p, j)...)
		}
	}
	change = append(change, m.byHand(p, DefaultPrefix+"/bin/socket_vmnet")...)
	var configs []string
	for _, n := range m.Networks {
		if !p.Uses(n.Program) || n.Tool != "lima" || slices.Contains(configs, n.Config) {
			continue
		}
		configs = append(configs, n.Config)
		change = append(change, fmt.Sprintf(`sed -i.before-socket_vmnet2 's|^\( *socketVMNet:\).*|\1 "%s/bin/socket_vmnet"|' %s`, DefaultPrefix, shell.Quote(n.Config)))
		if n.Sudoers != "" && n.State != SudoersMissing {
			change = append(change, LimaSudoers(n.Sudoers))
		}
	}
	return append(lines, m.between(p, change)...)
}

// between has a program's clients that run stopped before lines, and started behind them.
func (m *mover) between(p Program, lines []string) []string {
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

// byHand restarts daemons that nothing else restarts, with the program at path.
func (m *mover) byHand(p Program, path string) (lines []string) {
	for _, d := range m.Servers {
		if p.Uses(d.Program) && d.StartedBy == byHand {
			sudo := sudoIf(d.UID == 0)
			lines = append(lines, sudo+"kill "+strconv.Itoa(d.PID), sudo+command(append([]string{path}, d.Args[1:]...)...)+" &")
		}
	}
	return lines
}

func sudoIf(root bool) string {
	if root {
		return "sudo "
	}
	return ""
}

// moveJob has a job of ours serve the socket of another.
func (m *mover) moveJob(p Program, j Job) []string {
	ours := func(o Job) bool { return o.Owner == "socket_vmnet2" && SamePath(o.Socket, j.Socket) }
	another := func(o Job) bool {
		q := m.ProgramAt(o.Program)
		return o.Label != j.Label && SamePath(o.Socket, j.Socket) && q != nil && (q.Ours || q.inPlace())
	}
	switch {
	case j.State == NotLoaded && slices.ContainsFunc(m.Jobs, ours):
		return nil // it has been moved
	case slices.Contains(m.served, public(j.Socket)) || slices.ContainsFunc(m.Jobs, another):
		return []string{"# another job serves " + shell.Quote(j.Socket) + " as well, and goes on to", stopJob(p, j)}
	}
	m.served = append(m.served, public(j.Socket))
	words := append([]string{DefaultPrefix + "/bin/socket_vmnet2", "service", "install"}, m.service(j)...)
	return []string{stopJob(p, j), "sudo " + command(append(append(words, "--"), j.Args[1:]...)...)}
}

// service are the options that name our job: that of the network, or another name where there is one of that label already.
func (m *mover) service(j Job) []string {
	const base = "io.github.socket-vmnet2."
	options, label := []string{"--network=shared"}, "socket_vmnet2"
	switch {
	case j.Mode == "bridged" && j.Interface != "":
		options, label = []string{"--network=bridged", "--interface=" + j.Interface}, "socket_vmnet2.bridged."+j.Interface
	case j.Mode == "host":
		options, label = []string{"--network=host"}, "socket_vmnet2.host"
	}
	taken := func(label string) bool {
		return slices.Contains(m.labels, label) || slices.ContainsFunc(m.Jobs, func(o Job) bool { return o.Label == base+label })
	}
	for n := 1; taken(label); n++ {
		label = strings.TrimSuffix(fmt.Sprintf("%s%d", j.Owner, n), "1")
		options = []string{"--name=" + label}
	}
	m.labels = append(m.labels, label)
	return options
}

// stopJob stops a job for good.
func stopJob(p Program, j Job) string {
	sudo := sudoIf(!j.User())
	switch j.Owner {
	case "homebrew":
		brew := "/opt/homebrew/bin/brew"
		if strings.HasPrefix(p.Path, "/usr/local/") {
			brew = "/usr/local/bin/brew"
		}
		return sudo + command(brew, "services", "stop", "socket_vmnet")
	case "macports":
		return "sudo /opt/local/bin/port unload socket_vmnet"
	}
	return sudo + command("launchctl", "bootout", j.Target()) + " && " + sudo + command("mv", j.Path, j.Path+".before-socket_vmnet2")
}
