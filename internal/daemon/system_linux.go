// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticks is the number of units a second in which /proc counts: USER_HZ, 100 on all of Linux's architectures that Go has.
const ticks = 100

// processOf is the name of a process now, and for how long it has been there; false when that is not known.
func processOf(pid int) (name string, age time.Duration, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, false
	}
	// PID (NAME) STATE …: a name may hold anything, so its end is the last parenthesis. Field 22 is when it began (proc(5)).
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return "", 0, false
	}
	fields := bytes.Fields(b[end+1:])
	const began = 22 - 3 // the first one here is the third
	var now unix.Timespec
	if len(fields) <= began || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return "", 0, false
	}
	n, err := strconv.ParseInt(string(fields[began]), 10, 64)
	if err != nil {
		return "", 0, false
	}
	return string(b[open+1 : end]), time.Duration(now.Nano()) - time.Duration(n)*(time.Second/ticks), true
}

// endAfter does nothing: Go waits for nothing before an exec here.
func endAfter(uint) (undo func()) { return func() {} }
