// SPDX-License-Identifier: Apache-2.0

package link

import "golang.org/x/sys/unix"

// maxWaits is 0: the system tells when there is room.
const maxWaits = 0

func setDatagramBuffers(fd int) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil && n < 2*datagramSendBuf {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, datagramSendBuf)
	}
}

// Wait implements Pipe. Linux wakes it when three quarters of the buffer are free. It is woken by the deadline that Close
// sets, so stop need not be looked at.
func (p *datagramPipe) Wait(<-chan struct{}) {
	_ = p.rc.Write(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}
