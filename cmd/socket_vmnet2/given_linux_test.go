// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"sync"
	"syscall"
)

// canBeProcess1 tells whether a child can have a PID namespace of its own.
var canBeProcess1 = sync.OnceValue(func() bool {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	return cmd.Run() == nil
})

// canMount tells whether a child can have a mount namespace of its own, and mount there. Root in a container may not.
var canMount = sync.OnceValue(func() bool {
	cmd := exec.Command("/bin/sh", "-c", "mount --make-rprivate / && mount -t tmpfs none /var/lib")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	return cmd.Run() == nil
})

func init() {
	asProcess1 = func(cmd *exec.Cmd) bool {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		return canBeProcess1()
	}
}
