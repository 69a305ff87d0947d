// SPDX-License-Identifier: Apache-2.0

package link

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls say themselves that they do not wait: a process that holds the same end may have cleared O_NONBLOCK. They cost
// what read and write cost.
//
// So they need not be announced to Go's scheduler. That matters: copying a full batch takes longer than the 20 us after
// which the scheduler gives the thread's place to another one, and the frames then wait for it to come back. It took 22 %
// of the CPU per frame off full batches and 25 % off single frames.

// sendMayWait is whether a send can wait where O_NONBLOCK was cleared.
const sendMayWait = false

// readNow reads what is there without waiting.
func readNow(fd int, b []byte, _ bool) (int, error) {
	return rawIO(unix.SYS_RECVFROM, fd, b, unix.MSG_DONTWAIT)
}

// writeOnce writes what the socket takes without waiting.
func writeOnce(fd int, b []byte, _ bool) (int, error) {
	return rawIO(unix.SYS_SENDTO, fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

func rawIO(call uintptr, fd int, b []byte, flags uintptr) (int, error) {
	n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// maxWaits is 0: the system tells when there is room.
const maxWaits = 0

// Wait implements pipe. Linux wakes it when three quarters of the buffer are free. It is woken by the deadline that Close
// sets, so stop need not be looked at.
func (p *datagramPipe) Wait(<-chan struct{}) { WaitWritable(p.rc) }

// onlySender is no name: a connected socket takes datagrams from its peer alone.
func onlySender(int) (name []byte, only bool) { return nil, false }

// refuseWrites has everything that the peer of the socket fd writes from now on fail with EPIPE, and reports whether it
// could. Linux wakes a peer that waits for room.
func refuseWrites(fd int) bool { return unix.Shutdown(fd, unix.SHUT_RD) == nil }
