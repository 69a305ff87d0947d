// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
)

// restarts are the commands after which everything that an install serves is run by the program that is there now. Forth
// tells which of both ways it is, for the notes.
func (f *finder) restarts(in Install, forth bool) []Step {
	var steps []Step
	for _, j := range f.plan.Jobs {
		if f.isOf(in, j.Program) {
			steps = append(steps, f.restartJob(j, forth))
		}
	}
	for _, d := range f.plan.Daemons {
		if f.isOf(in, d.Program) && d.StartedBy == byHand {
			note := "it was started by hand; start it again in a terminal, or as you did"
			steps = append(steps, Step{f.restartDaemon(d), note})
		}
	}
	for _, n := range f.networksOf(in) {
		if d := f.restartable(n); d != nil {
			steps = append(steps, Step{restartNetwork(n, *d), "its machines come back by themselves; to Lima it is the daemon that it started, by its pidfile"})
		}
	}
	return append(steps, f.restartMachines(in)...)
}

// restartable is the running daemon of a network whose running machines all come back by themselves. Lima restarts it only with
// a machine; but a daemon at the same socket and pidfile is Lima's as well.
func (f *finder) restartable(n Network) *Daemon {
	i := slices.IndexFunc(f.plan.Daemons, func(d Daemon) bool { return samePath(d.Socket, n.Socket) })
	in := f.installOf(n.Program)
	if i < 0 || n.Tool != "lima" || f.plan.Daemons[i].UID != 0 || in == nil || !in.Ours && !in.inPlace() {
		return nil
	}
	for _, m := range f.plan.Machines {
		if m.Running && samePath(m.Socket, n.Socket) && m.Effect != EffectReconnects {
			return nil
		}
	}
	return &f.plan.Daemons[i]
}

// restartNetwork stops a network's daemon as Lima does, and starts it as Lima does: in the background, with Lima's log.
func restartNetwork(n Network, d Daemon) string {
	log := filepath.Join(filepath.Dir(filepath.Dir(n.Config)), "_networks", n.Name+"_socket_vmnet.stderr.log")
	return fmt.Sprintf("sudo /usr/bin/pkill -F %s && sleep 2 && sudo -b %s </dev/null >/dev/null 2>>%s",
		shell.Quote(n.Pidfile), command(d.Arguments...), shell.Quote(log))
}

// restartJob restarts a job with what is at its path now.
func (f *finder) restartJob(j Job, forth bool) Step {
	note := "a second or two without a network for the machines on " + j.Socket
	if !forth {
		note = "runs the old program again"
	}
	switch j.State {
	case notLoaded:
		note = "the job is not loaded now, so this can be left out"
	case "not running":
		note = "the job does not run now, so this can be left out"
	}
	if j.User {
		return Step{kickstart(f.jobTarget(j)), note}
	}
	return Step{"sudo " + kickstart(f.jobTarget(j)), note}
}

func kickstart(target string) string { return "launchctl kickstart -k " + shellTarget(target) }

// shellTarget quotes all of a job's name but the shell's own $(id -u) for a home whose owner is not known.
func shellTarget(target string) string {
	if rest, ok := strings.CutPrefix(target, "gui/$(id -u)/"); ok {
		return `"gui/$(id -u)"/` + shell.Quote(rest)
	}
	return shell.Quote(target)
}

// restartAny restarts a daemon, whoever started it. What Lima restarts with its machines only is no command.
func (f *finder) restartAny(d Daemon) string {
	for _, j := range f.plan.Jobs {
		if samePath(j.Socket, d.Socket) {
			return f.restartJob(j, true).Command
		}
	}
	for _, n := range f.plan.Networks {
		if samePath(n.Socket, d.Socket) {
			if f.restartable(n) != nil {
				return restartNetwork(n, d)
			}
			return ""
		}
	}
	return f.restartDaemon(d)
}

// restartDaemon ends a daemon and starts it again as it was.
func (f *finder) restartDaemon(d Daemon) string {
	if d.UID == 0 {
		return fmt.Sprintf("sudo kill %d && sleep 2 && sudo %s", d.PID, command(d.Arguments...))
	}
	return fmt.Sprintf("kill %d && sleep 2 && %s", d.PID, command(d.Arguments...))
}

// restartMachines are the commands for the machines that do not come back by themselves, and for those whose tool starts the
// daemon: all of them stop before the first starts again, since the daemon ends with the last.
func (f *finder) restartMachines(in Install) []Step {
	var stops, starts []Step
	for _, m := range f.plan.Machines {
		if !m.Running || !f.uses(m, in) || m.stop == "" || m.Effect == EffectReconnects && (!f.startsDaemon(m) || f.alone(m)) {
			continue
		}
		stop, start := Step{Command: m.stop, Note: stopNote(m, f.startsDaemon(m))}, Step{Command: m.start}
		if slices.ContainsFunc(stops, func(s Step) bool { return s.Command == stop.Command }) {
			continue
		}
		stops, starts = append(stops, stop), append(starts, start)
	}
	return append(stops, starts...)
}

// alone tells whether a machine of Lima's network need not be restarted, since the network's daemon can be by itself.
func (f *finder) alone(m Machine) bool {
	i := slices.IndexFunc(f.plan.Networks, func(n Network) bool { return samePath(n.Socket, m.Socket) })
	return i >= 0 && f.restartable(f.plan.Networks[i]) != nil
}

// startsDaemon tells whether the machine's tool starts the daemon, and only when it starts a machine.
func (f *finder) startsDaemon(m Machine) bool {
	return m.Tool == "colima" || m.Network != ""
}

func stopNote(m Machine, starts bool) string {
	if starts {
		return "its tool starts the daemon only with a machine; until then it keeps its network"
	}
	return "it has no network until it is restarted: " + m.Why
}
