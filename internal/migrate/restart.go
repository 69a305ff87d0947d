// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"slices"
	"strings"
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
	return append(steps, f.restartMachines(in)...)
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
		return `"gui/$(id -u)"/` + quote(rest)
	}
	return quote(target)
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
		if !m.Running || !f.uses(m, in) || m.stop == "" || m.Effect == EffectReconnects && !f.startsDaemon(m) {
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
