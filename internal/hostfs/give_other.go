// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostfs

import "golang.org/x/sys/unix"

// Give gives n, a socket of this process, to uid and gid (-1: unchanged) and then sets its mode. A socket cannot be opened here,
// so its name is used, but no link is followed: those who may write in its directory, as Colima's users may, could otherwise
// have root change a file of their choice. step names what failed.
func (p Place) Give(n Node, uid, gid int, mode uint32) (step string, err error) {
	there, err := p.Node()
	if err == nil && (!there.Same(n) || !there.OwnSocket()) {
		err = unix.EADDRINUSE
	}
	if err == nil {
		err = unix.Fchownat(p.dir(), p.Name, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return "chown", err
	}
	return "chmod", unix.Fchmodat(p.dir(), p.Name, mode, unix.AT_SYMLINK_NOFOLLOW)
}
