// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dgram

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// replyBufLen is the least send buffer of a reply socket in bytes: macOS takes no longer datagram than that.
const replyBufLen = 65<<10 + 512

// repliesTell: macOS says ENOBUFS when a client has no room, and not when it has some again.
const repliesTell = false

// senders reports whether the system tells who sent a datagram.
func (t Trust) senders() bool { return false }

// enlargeShared asks for room in both directions and returns what the send buffer is.
func enlargeShared(fd int) (int, error) {
	enlarge(fd, unix.SO_SNDBUF, replyBufLen)
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return 0, fmt.Errorf("read the size of the send buffer: %w", err)
	}
	return size, nil
}

// yield lets other goroutines run.
func yield() { runtime.Gosched() }

// outstanding is 0: datagrams are charged to their receiver.
func outstanding(int) int { return 0 }
