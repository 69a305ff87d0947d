// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim

package darwinapi

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

const defaultPath = "" // there is no libSystem

// errnoLocation is glibc's function that returns the address of the thread's errno.
var errnoLocation = sync.OnceValue(func() uintptr {
	f, _ := purego.Dlsym(purego.RTLD_DEFAULT, "__errno_location")
	return f
})

// msghdr calls sendmsg_x or recvmsg_x. Here purego does not bring errno back, so it is read from the same thread.
func msghdr(f uintptr, args []uintptr) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n, _, _ := purego.SyscallN(f, args...)
	if int(n) >= 0 {
		return int(n), nil
	}
	at, _, _ := purego.SyscallN(errnoLocation())
	return 0, syscall.Errno(**(**int32)(unsafe.Pointer(&at)))
}
