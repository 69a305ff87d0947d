// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// starvingTick is the time between two looks.
const starvingTick = 10 * time.Millisecond

// Starving follows for how long the threads of a process, and this one, want to run and get no processor. The function that it
// returns ends that, and tells the sum. A time limit is for a program that gets to run: on a machine with much else to do this is what
// comes on top. Where the kernel does not tell, it is only how late this process got its turns.
func Starving(pid int) (end func() time.Duration) {
	stop, result := make(chan struct{}), make(chan time.Duration)
	waited := map[string]time.Duration{}
	first := threadWaits(pid)
	go func() {
		late := time.Duration(0)
		for last := time.Now(); ; {
			for thread, d := range threadWaits(pid) {
				waited[thread] = d - first[thread] // of those that end, what they had come to
			}
			select {
			case <-stop:
				for _, d := range waited {
					late += max(d, 0)
				}
				result <- late
				return
			case <-time.After(starvingTick):
			}
			late += max(0, time.Since(last)-2*starvingTick)
			last = time.Now()
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-result
	}
}

// Waited is how long the threads of a process have waited for a processor since it began, those that there are; with main only the
// first of them, which in QEMU is the one that minds sockets and timers while others are the guest's processors.
func Waited(pid int, main bool) (sum time.Duration) {
	first := fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, pid)
	for thread, d := range threadWaits(pid) {
		if !main || thread == first {
			sum += d
		}
	}
	return sum
}

// threadWaits is how long each of a process's threads has waited for a processor since it began.
func threadWaits(pid int) map[string]time.Duration {
	waits := map[string]time.Duration{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range files {
		var ran, waited int64
		b, _ := os.ReadFile(file)
		if n, _ := fmt.Sscan(string(b), &ran, &waited); n == 2 {
			waits[file] = time.Duration(waited)
		}
	}
	return waits
}
