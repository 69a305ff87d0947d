// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"os"
	"syscall"
	"unsafe"

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

// stopSignalsKill gives stop signals their default action until undo or the exec: one that comes now ends the process. With the
// handlers it would be lost, since what they note is never heard of by the next image. They cannot be blocked instead: a thread's
// mask is its own, and no other thread can change it. What came before has been noted when it returns; in a program with cgo, which
// does not know all of its threads, it may be under way.
func stopSignalsKill() (undo func()) {
	before := make([]action, len(stopSignals))
	for i, s := range stopSignals {
		setAction(s, &action{}, &before[i])
	}
	// A thread takes one signal after the other, so it has done with theirs when it has made this call, which asks for it by one.
	_, _, _ = syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0)
	return func() {
		for i, s := range stopSignals {
			setAction(s, &before[i], nil)
		}
	}
}

// An action is the kernel's struct sigaction, which is not the same everywhere, and not larger than this. Its zero value is the
// default action.
type action [8]uint64

// kernelSet is the size of the kernel's signal sets in bytes; the C library's are larger.
const kernelSet = 8

// setAction sets what is done at a signal, in place of what was done before.
func setAction(s os.Signal, a, before *action) {
	if n, ok := s.(syscall.Signal); ok {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(before)), kernelSet, 0, 0)
	}
}
