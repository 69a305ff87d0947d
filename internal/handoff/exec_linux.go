// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"os"
	"runtime"
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

// holdStopSignals has stop signals wait until undo or the exec, so that no thread of this image takes one that the next image
// never hears of: threads run on for a while in an exec. It does nothing in a program with cgo, where a signal within that
// while is lost.
func holdStopSignals() (undo func()) {
	set := new(unix.Sigset_t)
	for _, s := range stopSignals {
		if n, ok := s.(syscall.Signal); ok {
			set.Val[(n-1)/bits] |= 1 << ((n - 1) % bits)
		}
	}
	onAllThreads(unix.SIG_BLOCK, set)
	return func() { onAllThreads(unix.SIG_UNBLOCK, set) }
}

// bits of a word of a signal set.
const bits = syscall.Signal(8 * unsafe.Sizeof(unix.Sigset_t{}.Val[0]))

// kernelSet is the size of the kernel's signal sets in bytes; the C library's are larger.
const kernelSet = 8

// onAllThreads changes the signal mask of each thread, and tells whether it could.
func onAllThreads(how uintptr, set *unix.Sigset_t) bool {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(set)), 0, kernelSet, 0, 0)
	runtime.KeepAlive(set)
	return errno == 0
}
