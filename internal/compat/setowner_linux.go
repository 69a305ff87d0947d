// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// setOwner gives the socket at path to uid and gid (-1: unchanged) and then sets its mode. The socket is held by a
// descriptor meanwhile: whoever may write in its directory, as Colima's users may, could otherwise have root change a file
// of their choice by putting a link in its place. step names what failed.
func setOwner(path string, mine os.FileInfo, uid, gid int, mode os.FileMode) (step string, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "chown", err
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	fi, err := f.Stat()
	if err == nil {
		err = sameSocket(fi, mine)
	}
	if err != nil {
		return "chown", err
	}
	if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
		return "chown", err
	}
	// There is no chmod of an O_PATH descriptor before Linux 6.6 but through its name in /proc.
	return "chmod", unix.Chmod(filepath.Join("/proc/self/fd", strconv.Itoa(fd)), uint32(mode.Perm()))
}
