// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rundir

import (
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// parentFlags open a directory in which only names are used.
const parentFlags = unix.O_RDONLY

// bind binds s to name. There is no bind that takes a directory, so the path is used, after a look whether it leads to the
// directory that was checked; take looks again. Somebody who may write in the parent and puts a link there in between has
// an empty socket with mode 0600 made in a directory of his choice, and nothing else. It returns the name that the system has
// for the socket from then on.
func (d *Dir) bind(s, dir *os.File, name string) (string, error) {
	where := d.path + "/" + name
	var st unix.Stat_t
	if err := unix.Lstat(where[:strings.LastIndexByte(where, '/')], &st); err != nil {
		return "", err
	}
	n, err := stat(dir)
	if err != nil {
		return "", err
	}
	if !n.same(nodeOf(&st)) {
		return "", unix.EADDRINUSE
	}
	return where, compat.BindPrivate(fd(s), where)
}

// prepare has nothing to do: the system does not tell who sent a datagram.
func prepare(*os.File, int) error { return nil }

// fresh tells whether n can be a socket that has just been bound: BindPrivate's mode tells it from others of our user.
func (d *Dir) fresh(n node) bool {
	return n.kind() == unix.S_IFSOCK && n.uid == d.euid && n.nlink == 1 && n.mode&0o7777 == 0o600
}

// give sets group and mode. A socket cannot be opened here; its name is used in a directory where only we can put another
// one in its place, and no link is followed.
func (d *Dir) give(b bound, mode uint32) error {
	name := path.Base(b.name)
	err := d.chgrp(b.node, func(gid int) error { return unix.Fchownat(fd(b.dir), name, -1, gid, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return err
	}
	return unix.Fchmodat(fd(b.dir), name, mode, unix.AT_SYMLINK_NOFOLLOW)
}
