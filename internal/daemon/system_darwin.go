// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

// processOf is the name of a process now, and for how long it has been there; false when that is not known.
func processOf(pid int) (name string, age time.Duration, ok bool) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(p.Proc.P_pid) != pid {
		return "", 0, false
	}
	began := time.Unix(p.Proc.P_starttime.Unix())
	return unix.ByteSliceToString(p.Proc.P_comm[:]), time.Since(began), true
}

// endAfter has the system end the process after so many seconds.
func endAfter(seconds uint) (undo func()) { return darwinapi.EndAfter(seconds) }
