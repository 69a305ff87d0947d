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
	"time"
)

// An Activity is what the threads of a process have done up to a moment, those that were there.
type Activity struct {
	threads map[string]threadActivity // by what the kernel calls them
	when    time.Time
}

// A Work is what a process has done between two moments.
type Work struct {
	Length      time.Duration // between the moments
	CPU         time.Duration
	Voluntary   uint64 // context switches by which a thread waits: each of these ends in a wake-up
	Involuntary uint64 // context switches by which a thread makes room for another
}

type threadActivity struct {
	cpu                    time.Duration
	voluntary, involuntary uint64
}

// Activity reads what the process has done up to now, which needs Linux.
func (r *Relay) Activity() (Activity, error) {
	return readActivity(filepath.Join("/proc", strconv.Itoa(r.PID()), "task"))
}

// Since is what has been done since an earlier moment. What a thread did that has ended in between is not known and left out;
// a thread that has begun in between counts from its begin.
func (a Activity) Since(earlier Activity) Work {
	w := Work{Length: a.when.Sub(earlier.when)}
	for id, now := range a.threads {
		before := earlier.threads[id]
		if now.cpu < before.cpu || now.voluntary < before.voluntary || now.involuntary < before.involuntary {
			before = threadActivity{} // another thread has got the number of one that ended
		}
		w.CPU += now.cpu - before.cpu
		w.Voluntary += now.voluntary - before.voluntary
		w.Involuntary += now.involuntary - before.involuntary
	}
	return w
}

// readActivity reads a directory as /proc/PID/task is.
func readActivity(dir string) (Activity, error) {
	a := Activity{threads: map[string]threadActivity{}, when: time.Now()}
	threads, err := os.ReadDir(dir)
	if err != nil {
		return a, fmt.Errorf("find the threads of a relay, which needs Linux: %w", err)
	}
	for _, thread := range threads {
		t, err := readThread(filepath.Join(dir, thread.Name()))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, errEnded) {
			continue // it has just ended
		}
		if err != nil {
			return a, err
		}
		a.threads[thread.Name()] = t
	}
	return a, nil
}

func readThread(dir string) (t threadActivity, err error) {
	stat, err := readProc(filepath.Join(dir, "schedstat"))
	if err != nil {
		return t, fmt.Errorf("read a thread's CPU time: %w", err)
	}
	var ran int64
	if _, err := fmt.Sscan(stat, &ran); err != nil {
		return t, fmt.Errorf("read a thread's CPU time of %q: %w", stat, err)
	}
	t.cpu = time.Duration(ran)
	status, err := readProc(filepath.Join(dir, "status"))
	if err != nil {
		return t, fmt.Errorf("read a thread's context switches: %w", err)
	}
	t.voluntary, err = number(status, "voluntary_ctxt_switches:")
	if err != nil {
		return t, err
	}
	t.involuntary, err = number(status, "nonvoluntary_ctxt_switches:")
	return t, err
}

// errEnded is that a thread or process ended while it was looked at.
var errEnded = errors.New("it has ended")

// readProc reads a file of /proc. Once its thread has ended, the kernel says so in one of several ways.
func readProc(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, syscall.ESRCH) || err == nil && len(b) == 0 {
		return "", errEnded
	}
	return string(b), err
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

// Anonymous is the process's resident anonymous memory in KiB, which needs Linux.
func (r *Relay) Anonymous() (uint64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID()))
	if err != nil {
		return 0, fmt.Errorf("read a relay's memory, which needs Linux: %w", err)
	}
	return number(string(status), "RssAnon:")
}
