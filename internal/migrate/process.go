// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// findProcesses asks for the processes, if there is somebody to ask.
func (f *finder) findProcesses() {
	if f.Processes == nil {
		return
	}
	list, err := f.Processes(f.ctx)
	if err != nil {
		f.problem("the list of processes", fmt.Errorf("%w: what runs is not known", err))
		return
	}
	f.plan.Looked = append(f.plan.Looked, "the list of processes")
	f.processes, f.asked = list, true
}

// process is the running process of this number, or nil.
func (f *finder) process(pid int) *Process {
	i := slices.IndexFunc(f.processes, func(p Process) bool { return p.PID == pid })
	if i < 0 {
		return nil
	}
	return &f.processes[i]
}

// ParsePS reads the output of ps -axww -o pid=,ppid=,uid=,args=. A space in an argument cannot be told from one between two.
func ParsePS(out string) []Process {
	var list []Process
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		var p Process
		var errs [3]error
		p.PID, errs[0] = strconv.Atoi(words[0])
		p.PPID, errs[1] = strconv.Atoi(words[1])
		p.UID, errs[2] = strconv.Atoi(words[2])
		if errs != [3]error{} {
			continue
		}
		p.Args = words[3:]
		list = append(list, p)
	}
	return list
}

// PS lists the processes by means of ps.
func PS(run Runner) func(context.Context) ([]Process, error) {
	return func(ctx context.Context) ([]Process, error) {
		// Without -ww some of them cut lines at the width of a terminal.
		out, err := run(ctx, "ps", "-axww", "-o", "pid=,ppid=,uid=,args=")
		if err != nil {
			return nil, fmt.Errorf("ps failed: %w", err)
		}
		return ParsePS(string(out)), nil
	}
}

// byHand is who started a daemon that no job, no tool and no configuration knows.
const byHand = "by hand"

// findDaemons looks for running daemons, and for the install that each is of.
func (f *finder) findDaemons() {
	for _, p := range f.processes {
		if !isDaemon(p.Args) {
			continue
		}
		d := Daemon{PID: p.PID, UID: p.UID, Arguments: cleanAll(p.Args), daemonArgs: parseArgs(p.Args), StartedBy: byHand}
		f.addInstall(d.Program)
		in := f.installOf(d.Program)
		d.Ours = strings.HasPrefix(filepath.Base(d.Program), "socket_vmnet2") || in != nil && in.Ours
		if i := slices.IndexFunc(f.plan.Jobs, func(j Job) bool { return samePath(j.Socket, d.Socket) }); i >= 0 && p.PPID == 1 {
			d.StartedBy = "launchd job " + f.plan.Jobs[i].Label
		}
		f.plan.Daemons = append(f.plan.Daemons, d)
	}
}

func cleanAll(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, t := range texts {
		out = append(out, clean(t))
	}
	return out
}
