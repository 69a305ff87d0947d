// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package link

import "golang.org/x/sys/unix"

// sendMayWait is whether a send can wait where O_NONBLOCK was cleared: macOS then ignores MSG_DONTWAIT.
const sendMayWait = true

// readNow reads what is there without waiting. shared says that O_NONBLOCK may have been cleared; asking for each call costs
// some garbage.
func readNow(fd int, b []byte, shared bool) (int, error) {
	if !shared {
		return unix.Read(fd, b)
	}
	n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
	return n, err
}

// writeOnce writes what the socket takes, without waiting as long as the descriptor is non-blocking.
func writeOnce(fd int, b []byte) (int, error) { return unix.Write(fd, b) }
