// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sys/unix"
)

// replyBufLen is the least send buffer of a reply socket in bytes. It counts where net.unix.max_dgram_qlen, 10 by default, lets
// so much wait at all; see package link for its size.
const replyBufLen = 512 << 10

// repliesTell: a reply socket is ready for writing when its client has room.
const repliesTell = true

// senders reports whether the system tells who sent a datagram.
func (t Trust) senders() bool { return true }

// enlargeShared asks for sharedBufLen, has the senders told, and returns what the send buffer is.
func enlargeShared(fd int) (int, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return 0, fmt.Errorf("ask for the senders of datagrams: %w", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, sharedBufLen) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sharedBufLen) // as much as anybody may have
	}
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return 0, fmt.Errorf("read the size of the send buffer: %w", err)
	}
	return size, nil
}

// yield lets other goroutines and other processes run.
func yield() {
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// outstanding is what the clients of fd have not read, in charged bytes. If the system does not tell, it is as much as can be.
func outstanding(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
	if err != nil {
		return math.MaxInt32
	}
	return n
}
