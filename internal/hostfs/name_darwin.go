// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PathOf is the path of the file that fd is, empty if it has none.
func PathOf(fd int) string {
	path := make([]byte, unix.PathMax) // F_GETPATH fills MAXPATHLEN
	var pin runtime.Pinner
	pin.Pin(&path[0])
	defer pin.Unpin()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETPATH, int(uintptr(unsafe.Pointer(&path[0])))); err != nil {
		return ""
	}
	return unix.ByteSliceToString(path)
}

// Dup2 makes target the same file as fd, without close-on-exec.
func Dup2(fd, target int) error { return unix.Dup2(fd, target) }
