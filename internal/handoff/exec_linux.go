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

// blockStopSignals has stop signals wait, on all threads if that is possible, else on this one, to which the goroutine is
// locked. The exec keeps the mask of this thread, and what waits. A Go program that starts with a signal blocked unblocks
// it in signal.Notify.
//
// All threads: a signal is given to any thread that does not block it, and if that is one of this image, the new one never
// hears of it. It is not possible in a program with cgo; then a signal within the last microseconds can be lost.
func blockStopSignals() (unblock func()) {
	set, old := new(unix.Sigset_t), new(unix.Sigset_t)
	for _, s := range stopSignals {
		set.Val[(s-1)/bits] |= 1 << ((s - 1) % bits)
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, set, old); err != nil {
		return func() {}
	}
	all := onAllThreads(unix.SIG_BLOCK, set)
	return func() {
		if all {
			onAllThreads(unix.SIG_UNBLOCK, set)
		}
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, old, nil)
	}
}

// bits of a word of a signal set.
const bits = syscall.Signal(8 * unsafe.Sizeof(unix.Sigset_t{}.Val[0]))

// kernelSet is the size of the kernel's signal sets in bytes; the C library's are larger.
const kernelSet = 8

// onAllThreads changes the signal mask of each thread.
func onAllThreads(how uintptr, set *unix.Sigset_t) bool {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(set)), 0, kernelSet, 0, 0)
	runtime.KeepAlive(set)
	return errno == 0
}
