// SPDX-License-Identifier: Apache-2.0

package usernet

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
