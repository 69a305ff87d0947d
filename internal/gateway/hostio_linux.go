// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls say themselves that they do not wait, so Go's scheduler need not hear of them. It would take a call that copies
// 64 KiB for one that waits, and give the thread's place away.

// receiveNow reads what is there without waiting, and control messages into oob.
func receiveNow(fd uintptr, b, oob []byte) (n, control int, err error) {
	iov := [1]unix.Iovec{ioVector(b)}
	h := unix.Msghdr{Iov: &iov[0], Control: unsafe.SliceData(oob)}
	h.SetIovlen(len(iov))
	h.SetControllen(len(oob))
	n, err = rawMessage(unix.SYS_RECVMSG, fd, &h, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	return n, int(h.Controllen), err
}

// sendNow writes what the socket takes of head and b without waiting.
func sendNow(fd uintptr, head, b []byte) (int, error) {
	iov := [2]unix.Iovec{ioVector(head), ioVector(b)}
	h := unix.Msghdr{Iov: &iov[0]}
	h.SetIovlen(len(iov))
	return rawMessage(unix.SYS_SENDMSG, fd, &h, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

func ioVector(b []byte) unix.Iovec {
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	return v
}

func rawMessage(call, fd uintptr, h *unix.Msghdr, flags uintptr) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(h)), flags)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// bufferOptions set the size of the pair's buffers; the last one that the system permits counts.
var bufferOptions = []int{unix.SO_SNDBUF, unix.SO_SNDBUFFORCE}

// yield lets other processes run.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
