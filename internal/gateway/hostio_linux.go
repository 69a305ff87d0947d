// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls say themselves that they do not wait, so Go's scheduler need not hear of them. It would take a call that copies
// 64 KiB for one that waits, and give the thread's place away.

// readNow reads what is there without waiting.
func readNow(fd uintptr, b []byte) (int, error) {
	return rawIO(unix.SYS_RECVFROM, fd, b, unix.MSG_DONTWAIT)
}

// writeNow writes what the socket takes without waiting.
func writeNow(fd uintptr, b []byte) (int, error) {
	return rawIO(unix.SYS_SENDTO, fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

func rawIO(call, fd uintptr, b []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// write writes what the socket takes without waiting.
func (v *vector) write(fd uintptr) (int, error) {
	if len(v[0]) == 0 {
		return writeNow(fd, v[1])
	}
	var iov [2]unix.Iovec
	n := 0
	for _, b := range v {
		if len(b) > 0 {
			iov[n].Base = unsafe.SliceData(b)
			iov[n].SetLen(len(b))
			n++
		}
	}
	h := unix.Msghdr{Iov: &iov[0]}
	h.SetIovlen(n)
	return rawMessage(unix.SYS_SENDMSG, fd, &h, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// receive reads what is there without waiting, and the control messages that come with it.
func (m *message) receive(fd uintptr, b []byte) (n int, oob []byte, err error) {
	var iov unix.Iovec
	iov.Base = unsafe.SliceData(b)
	iov.SetLen(len(b))
	h := unix.Msghdr{Iov: &iov, Control: &m.oob[0]}
	h.SetIovlen(1)
	h.SetControllen(len(m.oob))
	n, err = rawMessage(unix.SYS_RECVMSG, fd, &h, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return n, nil, err
	}
	return n, m.oob[:h.Controllen], nil
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

// Yield lets other processes run.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
