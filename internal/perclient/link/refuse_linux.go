// SPDX-License-Identifier: Apache-2.0

package link

import "golang.org/x/sys/unix"

// refuseWrites has everything that the peer of the socket fd writes from now on fail with EPIPE, and reports whether it
// could. Linux wakes a peer that waits for room.
func refuseWrites(fd int) bool { return unix.Shutdown(fd, unix.SHUT_RD) == nil }
