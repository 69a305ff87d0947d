// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile makes a file of mode 0600 that has no name, in memory where the kernel can.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("socket_vmnet2", unix.MFD_CLOEXEC)
	if err != nil { // not before Linux 3.17, and not where a sandbox forbids it
		return temporary()
	}
	f := os.NewFile(uintptr(fd), "manifest")
	if err := f.Chmod(0o600); err != nil { // it is made with 0777
		_ = f.Close()
		return temporary()
	}
	return f, nil
}
