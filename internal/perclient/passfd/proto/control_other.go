// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proto

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// controlLen has room for more than can be sent at once, in bytes: macOS loses descriptors that do not fit, so that
// no process could close them. It takes 2 KiB in one call, and leaves the next sender's for the next read.
const controlLen = 16 << 10

// datagramSend is asked for as send buffer for datagrams, in bytes. On macOS it is only the longest datagram.
const datagramSend = 65 << 10

// refusedTime is how long to try again after a refused connection: macOS refuses when the backlog is full, too, and that has 128
// places whatever listen(2) was told (solisten in XNU's bsd/kern/uipc_socket.c).
const refusedTime = time.Second

// receiveRights reads once. The system has no flag that makes the descriptors close-on-exec, so no child may be started between
// receiving and marking them, which package net does not see to. bad tells that there are more of them than those returned.
func receiveRights(c *net.UnixConn, b, oob []byte) (n int, fds []int, flags int, bad, err error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, nil, 0, nil, err
	}
	var failed error
	err = rc.Read(func(fd uintptr) bool {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		var oobn int
		for {
			n, oobn, flags, _, failed = unix.Recvmsg(int(fd), b, oob, unix.MSG_DONTWAIT)
			if failed != unix.EINTR {
				break
			}
		}
		if failed == nil {
			fds, bad = rights(oob[:oobn])
			for _, f := range fds {
				unix.CloseOnExec(f)
			}
		}
		return failed != unix.EAGAIN
	})
	if err == nil {
		err = failed
	}
	return n, fds, flags, bad, err
}
