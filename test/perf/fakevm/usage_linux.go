// SPDX-License-Identifier: Apache-2.0

package fakevm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A usage is what a process has used since it was started.
type usage struct {
	cpu                    float64 // seconds
	voluntary, involuntary uint64  // context switches of the threads there are
	memory                 uint64  // KiB, anonymous
}

// usageOf reads the usage of process pid. CPU time comes from the process' clock, which is exact to the nanosecond where
// /proc/PID/stat counts ticks.
func usageOf(pid int) (usage, error) {
	var u usage
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil { // CPUCLOCK_SCHED of the process, as clock_getcpuclockid(3)
		return u, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	u.cpu = float64(t.Nano()) / 1e9
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, file := range threads {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		u.voluntary += field(string(status), "voluntary_ctxt_switches")
		u.involuntary += field(string(status), "nonvoluntary_ctxt_switches")
		u.memory = field(string(status), "RssAnon") // the same of each thread
	}
	if len(threads) == 0 {
		return u, fmt.Errorf("read the usage of process %d: it has ended", pid)
	}
	return u, nil
}

// field is a number from /proc/PID/status.
func field(status, name string) uint64 {
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		if key != name {
			continue
		}
		f := strings.Fields(value)
		if len(f) == 0 {
			return 0
		}
		n, _ := strconv.ParseUint(f[0], 10, 64)
		return n
	}
	return 0
}
