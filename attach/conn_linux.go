// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"syscall"
	"time"
)

// datagramSend is the send buffer to ask for, in bytes: how far the machine may be ahead of the daemon. A frame of 1,514 bytes
// is charged 2,304, and with the default of 208 KiB a busy machine waits more often than needed.
const datagramSend = 512 << 10

// recvRights receives without waiting, whatever the socket's flags are. The kernel makes the descriptors close-on-exec as it makes them.
func recvRights(fd int, buf, oob []byte) (n, oobn, flags int, fds []int, err error) {
	n, oobn, flags, _, err = syscall.Recvmsg(fd, buf, oob, syscall.MSG_DONTWAIT|syscall.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, 0, 0, nil, err
	}
	if oobn > 0 {
		fds, err = rights(oob[:oobn])
	}
	return n, oobn, flags, fds, err
}

// refusedTime is nothing: a full backlog is EAGAIN, and a refused connection means that there is no listener.
const refusedTime = time.Duration(0)
