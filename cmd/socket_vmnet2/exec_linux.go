// SPDX-License-Identifier: Apache-2.0

package main

import "golang.org/x/sys/unix"

// runtimes reports whether the Go runtime may end the program if fd is overwritten: see leaveThreads.
func runtimes(int) bool { return false }

// leaveThreads gives the calling thread, to which its goroutine is locked, descriptors of its own: what is done to them from
// here on is no other thread's business. Where that is forbidden, as by a container's filter of system calls, the numbers that
// reserve has kept free are safe all the same.
func leaveThreads() { _ = unix.Unshare(unix.CLONE_FILES) }
