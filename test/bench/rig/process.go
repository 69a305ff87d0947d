// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// proc is the relay's directory in /proc, which needs Linux.
func (r *Relay) proc() string { return filepath.Join("/proc", strconv.Itoa(r.PID())) }

// switches are the context switches of a process up to a moment, by its threads. A thread that waits makes one, and another
// wakes it up.
type switches map[string]uint64

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

// readSwitches reads a directory as /proc/PID is.
func readSwitches(dir string) (switches, error) {
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return nil, fmt.Errorf("find the threads of a relay, which needs Linux: %w", err)
	}
	all := switches{}
	for _, thread := range threads {
		status, err := os.ReadFile(filepath.Join(dir, "task", thread.Name(), "status"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || err == nil && len(status) == 0 {
			continue // it has just ended, which the kernel says in one of several ways
		}
		voluntary, err1 := number(string(status), "voluntary_ctxt_switches:")
		involuntary, err2 := number(string(status), "nonvoluntary_ctxt_switches:")
		if err := errors.Join(err, err1, err2); err != nil {
			return nil, err
		}
		all[thread.Name()] = voluntary + involuntary
	}
	return all, nil
}

// number is what stands in a line of a status file of /proc.
func number(status, key string) (uint64, error) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, key); found {
			return strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("find %q in the status of a process", key)
}
