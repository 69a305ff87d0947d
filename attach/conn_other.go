// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package attach

import (
	"syscall"
	"time"
)

// datagramSend is the send buffer to ask for, in bytes. On macOS it is the longest datagram, and 65,550 is the longest frame.
const datagramSend = 65 << 10

// recvRights receives without waiting, whatever the socket's flags are. There is no flag that makes the descriptors close-on-exec, so no child may be started
// between receiving and marking them.
func recvRights(fd int, buf, oob []byte) (n, oobn, flags int, fds []int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	n, oobn, flags, _, err = syscall.Recvmsg(fd, buf, oob, syscall.MSG_DONTWAIT)
	if err != nil {
		return 0, 0, 0, nil, err
	}
	if oobn > 0 {
		fds, err = rights(oob[:oobn])
	}
	for _, f := range fds {
		syscall.CloseOnExec(f)
	}
	return n, oobn, flags, fds, err
}

// refusedTime is how long to try again after a refused connection: macOS refuses also when as many connections wait as it allows,
// which are 128.
const refusedTime = time.Second
