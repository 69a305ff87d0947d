// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"io"
	"strings"
)

// width is how long the text's lines are, commands apart: a command is one line, so that it can be copied.
const width = 92

// WriteText writes the plan for a person.
func (p *Plan) WriteText(w io.Writer) error {
	t := &text{}
	t.head(p)
	n := 0
	section := func(title string, has bool, write func()) {
		if has {
			n++
			t.line("")
			t.line(fmt.Sprintf("%d. %s", n, title))
			write()
		}
	}
	section("What is here", len(p.Installs)+len(p.Jobs)+len(p.Daemons)+len(p.Networks) > 0, func() { t.found(p) })
	section("Virtual machines", len(p.Machines) > 0, func() { t.machines(p) })
	section("What to know first", len(p.Conflicts) > 0, func() { t.conflicts(p) })
	section("The plan", len(p.Changes) > 0, func() { t.changes(p, n) })
	section("What could not be read", len(p.Problems) > 0, func() { t.problems(p) })
	section("What was looked at", p.Verdict == VerdictNothing, func() { t.looked(p) })
	_, err := io.WriteString(w, t.String())
	return err
}

// text collects lines.
type text struct{ strings.Builder }

func (t *text) line(s string) { fmt.Fprintln(t, s) }

// wrap writes words behind an indent; lines after the first get the other one.
func (t *text) wrap(first, rest, words string) {
	line := first
	empty := true
	for word := range strings.FieldsSeq(words) {
		if !empty && len([]rune(line))+1+len([]rune(word)) > width {
			t.line(line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	t.line(line)
}

func (t *text) head(p *Plan) {
	if p.Root != "" {
		t.line("Below " + p.Root + ", where no process was looked at:")
	}
	switch p.Verdict {
	case VerdictMigrate:
		t.wrap("", "", "How to move from socket_vmnet to socket_vmnet2, and back. Nothing has been changed: this is a plan.")
	case VerdictDone:
		t.wrap("", "", "socket_vmnet2 is here already, and there is nothing to move. Nothing has been changed.")
	default:
		t.wrap("", "", "There is no socket_vmnet here that can be moved. Nothing has been changed.")
		t.wrap("", "", "To see socket_vmnet2 at work without installing it, run:")
		t.line("")
		t.line("    " + command(p.Program, "try"))
	}
}

func (t *text) found(p *Plan) {
	for _, in := range p.Installs {
		name := "socket_vmnet"
		if in.Ours {
			name = "socket_vmnet2"
		}
		line := fmt.Sprintf("%s, %s %s", in.Program, name, orUnknown(in.Version))
		if in.Missing {
			t.wrap("   program  ", "            ", in.Program+", which is named but not there")
			continue
		}
		if in.Links != "" {
			line += ", a link to " + in.Links
		}
		t.wrap("   program  ", "            ", line+" ("+kindText(in.Kind)+")")
	}
	for _, j := range p.Jobs {
		t.wrap("   job      ", "            ", j.Label+serves(j.daemonArgs)+stateText(j.State))
	}
	for _, n := range p.Networks {
		line := n.Tool + ": " + n.Name + serves(n.daemonArgs)
		if n.State != "" {
			line += "; sudoers file " + n.State
		}
		t.wrap("   network  ", "            ", line)
	}
	for _, d := range p.Daemons {
		t.wrap("   daemon   ", "            ", fmt.Sprintf("process %d of %s, started by %s%s", d.PID, d.Program, strings.TrimPrefix(d.StartedBy, "by "), serves(d.daemonArgs)))
	}
}

func orUnknown(version string) string {
	if version == "" {
		return "of a version that its file does not tell"
	}
	return version
}

func kindText(kind string) string {
	switch kind {
	case KindUpstream:
		return "where make install puts it"
	case KindHomebrew:
		return "Homebrew"
	case KindMacPorts:
		return "MacPorts"
	case KindColima:
		return "Colima's own"
	case KindRancher:
		return "Rancher Desktop's own"
	case KindFinch:
		return "Finch's own"
	}
	return "put there by hand"
}

// serves tells what a daemon's command line asks for.
func serves(d daemonArgs) string {
	s := ""
	if d.Mode != "" {
		s += ", " + d.Mode
	}
	if d.Interface != "" {
		s += " on " + d.Interface
	}
	if d.Gateway != "" {
		s += " " + d.Gateway
	}
	if d.Socket != "" {
		s += " at " + d.Socket
	}
	return s
}

func stateText(state string) string {
	if state == "" {
		return ""
	}
	return "; " + state
}

func (t *text) machines(p *Plan) {
	for _, m := range p.Machines {
		name := m.Tool + " " + m.Name
		if m.VM != "" && m.VM != m.Tool {
			name += " (" + m.VM + ")"
		}
		on := " at " + m.Socket
		if m.Network != "" {
			on = " on network " + m.Network
		}
		switch m.Effect {
		case EffectReconnects:
			t.wrap("   ", "      ", name+on+": comes back by itself after a restart of its daemon: no network "+m.Outage+"; "+m.Why+".")
		case EffectNotRunning, EffectNone:
			t.wrap("   ", "      ", name+on+": "+m.Why+".")
		default:
			t.wrap("   ", "      ", name+on+": needs a restart after one of its daemon, and has no network in between: "+m.Why+".")
		}
	}
}

func (t *text) conflicts(p *Plan) {
	for _, c := range p.Conflicts {
		t.wrap("   - ", "     ", c.Text)
		t.wrap("     -> ", "        ", c.Fix)
	}
}

func (t *text) problems(p *Plan) {
	for _, pr := range p.Problems {
		t.wrap("   - ", "     ", pr.Path+": "+pr.Error+"; "+pr.Fix)
	}
}

func (t *text) looked(p *Plan) {
	for _, l := range p.Looked {
		t.line("   " + l)
	}
}

func (t *text) changes(p *Plan, section int) {
	todo := 0
	for _, c := range p.Changes {
		if c.State == StateToDo {
			todo++
		}
	}
	if todo > 1 {
		t.wrap("   ", "   ", "In this order, or only some of it. To undo more than one, begin with the last.")
		t.line("")
	}
	for i, c := range p.Changes {
		if i > 0 {
			t.line("")
		}
		t.wrap("", "     ", fmt.Sprintf("%d.%d %s: %s", section, i+1, c.Title, c.State))
		if c.Why != "" {
			t.wrap("    ", "    ", c.Why)
		}
		if len(c.Machines) > 0 {
			t.wrap("    Machines: ", "      ", strings.Join(c.Machines, ", "))
		}
		if len(c.Files) > 0 {
			t.wrap("    Files: ", "      ", strings.Join(c.Files, ", "))
		}
		t.steps("Do, in this order:", c.Steps)
		t.steps("Check:", c.Check)
		t.steps("Undo:", c.Undo)
	}
}

// steps writes commands, each below what is to be said of it.
func (t *text) steps(title string, steps []Step) {
	if len(steps) == 0 {
		return
	}
	t.line("    " + title)
	for _, s := range steps {
		if s.Note != "" {
			t.wrap("      # ", "      # ", s.Note)
		}
		if s.Command != "" {
			t.line("      " + s.Command)
		}
	}
}
