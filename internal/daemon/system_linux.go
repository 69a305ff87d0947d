// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ticks is the number of units a second in which /proc counts: USER_HZ, 100 on all of Linux's architectures that Go has.
const ticks = 100

// processOf is the name of a process now, and for how long it has been there; false when that is not known.
func processOf(pid int) (name string, age time.Duration, ok bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return "", 0, false
	}
	stat, err := p.Stat()
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return "", 0, false
	}
	return stat.Comm, time.Duration(now.Nano()) - time.Duration(stat.Starttime)*(time.Second/ticks), true
}

// endAfter does nothing: Go waits for nothing before an exec here.
func endAfter(uint) (undo func()) { return func() {} }
