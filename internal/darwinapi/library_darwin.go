// SPDX-License-Identifier: Apache-2.0

package darwinapi

import (
	"syscall"

	"github.com/ebitengine/purego"
)

const defaultPath = "/usr/lib/libSystem.B.dylib"

// msghdr calls sendmsg_x or recvmsg_x.
func msghdr(f uintptr, args []uintptr) (int, error) {
	n, _, errno := purego.SyscallN(f, args...)
	if int(n) < 0 {
		return 0, syscall.Errno(uint32(errno)) // purego reads 64 bits of an int
	}
	return int(n), nil
}
