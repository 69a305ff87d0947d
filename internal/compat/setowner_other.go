// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package compat

import (
	"os"

	"golang.org/x/sys/unix"
)

// setOwner gives the socket at path to uid and gid (-1: unchanged) and then sets its mode. A socket cannot be opened here,
// so its name is used, but no link is followed: whoever may write in its directory, as Colima's users may, could otherwise
// have root change a file of their choice. step names what failed.
func setOwner(path string, mine os.FileInfo, uid, gid int, mode os.FileMode) (step string, err error) {
	fi, err := os.Lstat(path)
	if err == nil {
		err = sameSocket(fi, mine)
	}
	if err == nil {
		err = unix.Lchown(path, uid, gid)
	}
	if err != nil {
		return "chown", err
	}
	return "chmod", unix.Fchmodat(unix.AT_FDCWD, path, uint32(mode.Perm()), unix.AT_SYMLINK_NOFOLLOW)
}
