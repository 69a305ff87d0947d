// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
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

// byHand is who started a daemon that no job, no tool and no configuration knows.
const byHand = "by hand"

// findDaemons looks for running daemons, and for the install that each is of.
func (f *finder) findDaemons() {
	for _, p := range f.processes {
		if !find.IsDaemon(p.Args) {
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
