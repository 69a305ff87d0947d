// SPDX-License-Identifier: Apache-2.0

// Package lowfd keeps the lowest descriptors free of the Go runtime's poller, for a program that puts a file at such a number and
// then becomes another program. The poller is made by the first timer, or by package os where a standard stream is
// non-blocking, and its threads go on until exec: a program that overwrites its number ends with "netpoll failed".
//
// So this package imports only slices and syscall. Packages are initialised by their path's order as soon as what they import is (Go 1.21's
// release notes), which is here before os, and before gvisor's hash, which starts a timer.
package lowfd

import (
	"slices"
	"syscall"
)

// The lowest free numbers that are kept: those that a program asks for, and not so many that a small limit of open files suffers.
var kept = make([]int, 0, 8)

func init() {
	for range cap(kept) {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil { // the limit of open files: the runtime itself needs some
			Release()
			return
		}
		kept = append(kept, fd)
	}
}

// Keeps reports whether fd is one of those that are kept.
func Keeps(fd int) bool { return slices.Contains(kept, fd) }

// Release closes what is kept. The runtime's poller, if there is one, stays above.
func Release() {
	for _, fd := range kept {
		_ = syscall.Close(fd)
	}
	kept = nil
}
