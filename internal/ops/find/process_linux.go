// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"strings"

	"github.com/prometheus/procfs"
)

// processes lists the processes of this machine. A bare Linux has no ps, but it has /proc, which also keeps arguments apart.
func processes(ctx context.Context) ([]Process, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, p := range all {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		args, err := p.CmdLine()
		if err != nil || len(args) == 0 {
			continue // it has gone, or is of the kernel
		}
		stat, err := p.Stat()
		status, err2 := p.NewStatus()
		if err != nil || err2 != nil {
			continue
		}
		dir, _ := p.Cwd() // of processes of others only for root, as the next
		exe, _ := p.Executable()
		list = append(list, Process{
			PID: p.PID, PPID: stat.PPID, UID: int(status.UIDs[1]), Args: args, Exe: strings.TrimSuffix(exe, " (deleted)"), Dir: dir,
		})
	}
	return list, nil
}
