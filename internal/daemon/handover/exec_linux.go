// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

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

// deadly has the system end the process by a signal, without a handler of Go's, which could be running on another thread at the moment of
// the exec: the signal would be lost with that. undo takes it back.
func deadly(s syscall.Signal) (undo func()) {
	var none, before [4]uint64 // the kernel's struct sigaction: a handler, flags, a restorer, a mask
	const maskLen = 8
	set := func(to, old *[4]uint64) {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), maskLen, 0, 0)
	}
	set(&none, &before)
	return func() { set(&before, nil) }
}

// quiesce waits until no thread is in a signal handler: what this calls comes after that, on each. Programs with cgo have no such way.
func quiesce() { _, _, _ = syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0) }
