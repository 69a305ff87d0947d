// SPDX-License-Identifier: Apache-2.0

package link

import "golang.org/x/sys/unix"

const (
	// maxWaits is 0: the system tells when there is room.
	maxWaits = 0

	// datagramSendBuf is the send buffer asked for on a datagram socket, in bytes: what the client may be behind with before
	// its frames are queued here. Linux charges 2,304 bytes for a full Ethernet frame and wakes us when three quarters are
	// free, so its default of 208 KiB is 92 frames: the CPU time per frame fell by a fifth with this one (stream to datagram
	// from 1.76 to 1.22 us, floor 1.11), and more gained nothing. A default that is larger is kept.
	datagramSendBuf = 512 << 10
)

func setDatagramBuffers(fd int) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF); err == nil && n < 2*datagramSendBuf {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, datagramSendBuf)
	}
}

// Wait implements pipe. Linux wakes it when three quarters of the buffer are free. It is woken by the deadline that Close
// sets, so stop need not be looked at.
func (p *datagramPipe) Wait(<-chan struct{}) { waitWritable(p.rc) }

// onlySender names nobody: a connected socket takes datagrams from its peer alone.
func onlySender(int) (name []byte, only bool) { return nil, false }
