// SPDX-License-Identifier: Apache-2.0

package main

import "syscall"

// peerPID is the process that listens where the socket fd is connected to.
func peerPID(fd int) (int, error) {
	cred, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
