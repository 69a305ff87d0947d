// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"syscall"
)

// ownGroup keeps a Ctrl-C on the terminal away from the process, since Close ends it in good order, and has the kernel
// kill it should this program die without doing so.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// apply has a process started under the account.
func (u *User) apply(a *syscall.SysProcAttr) {
	a.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID}
}

func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // fails when all have ended
}
