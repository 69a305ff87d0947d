// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// disconnect undoes the connect of a datagram socket.
func disconnect(fd int) {
	var none unix.RawSockaddr // AF_UNSPEC
	_, _, _ = unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
}
