// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FileOf names the file that fd is, for a sentence: by its path, if it has one.
func FileOf(fd int) string {
	path := make([]byte, unix.PathMax) // F_GETPATH fills MAXPATHLEN
	var pin runtime.Pinner
	pin.Pin(&path[0])
	defer pin.Unpin()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETPATH, int(uintptr(unsafe.Pointer(&path[0])))); err != nil {
		return "a file"
	}
	return strconv.Quote(unix.ByteSliceToString(path))
}
