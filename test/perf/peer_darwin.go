// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// peerPID is the process that listens where the socket fd is connected to.
func peerPID(fd int) (int, error) {
	const solLocal, localPeerPID = 0, 2 // sys/un.h
	return syscall.GetsockoptInt(fd, solLocal, localPeerPID)
}
