// SPDX-License-Identifier: Apache-2.0

package find

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processes lists the processes of this machine. A bare Linux has no ps, but it has /proc, which also keeps arguments apart.
func processes(ctx context.Context) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			list = append(list, p)
		}
	}
	return list, nil
}

// readProcess is one process, unless it has gone or is of the kernel.
func readProcess(pid int) (Process, bool) {
	dir := fmt.Sprintf("/proc/%d", pid)
	args, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(args) == 0 {
		return Process{}, false
	}
	p := Process{PID: pid, UID: -1, Args: strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")}
	p.Dir, _ = os.Readlink(dir + "/cwd") // of processes of others only for root
	if fi, err := os.Stat(dir); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			p.UID = int(st.Uid)
		}
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Process{}, false
	}
	// The name in brackets may hold anything; the state and the parent follow it.
	if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(fields) > 1 {
		p.PPID, _ = strconv.Atoi(fields[1])
	}
	return p, true
}
