// SPDX-License-Identifier: Apache-2.0

package darwinapi

import (
	"syscall"
	"unsafe"
)

// Read reads from fd, whose O_NONBLOCK is set for good, so that it cannot wait. So it is not announced to Go's scheduler, as package
// syscall does with such calls: announced, a copy of a full batch takes long enough for the thread's place to be given to another one.
// The caller keeps b, which is not on a stack.
func Read(fd int, b []byte) (int, error) { return transfer(lib().read, fd, b) }

// Write writes to fd as Read reads.
func Write(fd int, b []byte) (int, error) { return transfer(lib().write, fd, b) }

func transfer(f uintptr, fd int, b []byte) (int, error) {
	n, _, errno := rawSyscall(f, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// rawSyscall is package syscall's, which keeps it for x/sys. Functions without a body need a file of assembly, call_darwin.s.
//
//go:linkname rawSyscall syscall.rawSyscall
func rawSyscall(fn, a1, a2, a3 uintptr) (r1, r2 uintptr, err syscall.Errno)
