// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"time"

	"golang.org/x/sys/unix"
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
