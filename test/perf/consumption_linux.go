// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// procConsumption asks the process's own clock, which counts nanoseconds, and /proc.
func procConsumption(pid int) (consumption, error) {
	cpu, err := processClock(pid)
	if err != nil {
		return consumption{}, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	status, err := numbers(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return consumption{}, fmt.Errorf("read what process %d uses: %w", pid, err)
	}
	c := consumption{cpu: cpu, resolution: 1e-9, source: "/proc", residentKiB: find(status, "VmRSS"), anonKiB: find(status, "RssAnon")}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return consumption{}, err
	}
	c.voluntary, c.involuntary = new(uint64), new(uint64)
	for _, t := range tasks {
		status, err := numbers(t)
		if err != nil {
			continue // the thread has just ended
		}
		*c.voluntary += status["voluntary_ctxt_switches"]
		*c.involuntary += status["nonvoluntary_ctxt_switches"]
	}
	return c, nil
}

// processClock is the processor time of a process in seconds.
func processClock(pid int) (float64, error) {
	const clock = 2 // CPUCLOCK_SCHED: what the scheduler has counted, of all threads, the ended ones too
	var ts syscall.Timespec
	id := uintptr(^pid)<<3 | clock
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, errno
	}
	return float64(ts.Sec) + float64(ts.Nsec)/1e9, nil
}

// numbers are the lines of a file that are a name, a colon and a number.
func numbers(path string) (map[string]uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if fields := strings.Fields(value); len(fields) > 0 {
			if n, err := strconv.ParseUint(fields[0], 10, 64); err == nil {
				found[name] = n
			}
		}
	}
	return found, nil
}

func find(in map[string]uint64, name string) *uint64 {
	if n, ok := in[name]; ok {
		return &n
	}
	return nil
}
