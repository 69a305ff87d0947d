// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile makes a file of mode 0600 that has no name, in memory.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("socket_vmnet2", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "manifest")
	if err := f.Chmod(0o600); err != nil { // it is made with 0777
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
