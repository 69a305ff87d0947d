// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"strconv"
	"syscall"
)

// DropInherited keeps what this process was started with open, but for the standard streams, from all that it starts: with
// descriptor 3 taken socket_vmnet_client has another one for QEMU, and a daemon would keep a caller's pipe open. Go's own
// descriptors are not passed on anyway.
func DropInherited() {
	open, _ := os.ReadDir("/dev/fd") // on Linux and macOS
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
