// SPDX-License-Identifier: Apache-2.0

package rig

import "github.com/prometheus/procfs"

// switches are the context switches of a process up to a moment, by its threads. A thread that waits makes one, and another
// wakes it up.
type switches map[int]uint64

// since is how many there were since an earlier moment. Those of a thread that has ended in between are not known and left out; a
// thread that has begun in between counts from its begin.
func (s switches) since(earlier switches) (n uint64) {
	for thread, now := range s {
		before := earlier[thread]
		if now < before {
			before = 0 // another thread has got the number of one that ended
		}
		n += now - before
	}
	return n
}

// switchesOf are those of process pid.
func switchesOf(pid int) (switches, error) {
	threads, err := procfs.AllThreads(pid)
	all := switches{}
	for _, thread := range threads {
		if status, err := thread.NewStatus(); err == nil { // else it has just ended
			all[thread.PID] = status.TotalCtxtSwitches()
		}
	}
	return all, err
}
