// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// parentFlags open a directory in which only names are used: it need not be readable.
const parentFlags = unix.O_PATH

// bind binds s to the last element of name in dir. There is no bind that takes a directory, but the directory's name in
// /proc leads to the very one that is open, wherever it has been moved. This is also the name that the kernel tells
// others: nobody looks it up.
func (d *Dir) bind(s, dir *os.File, name string) error {
	return compat.BindPrivate(fd(s), procPath(fd(dir))+"/"+path.Base(name))
}

// fresh tells whether n can be a socket that has just been bound.
func (d *Dir) fresh(n node) bool { return n.kind() == unix.S_IFSOCK && n.uid == d.euid && n.nlink == 1 }

// give sets group and mode. The socket is held by a descriptor meanwhile.
func (d *Dir) give(b bound, mode uint32) error {
	raw, err := unix.Openat(fd(b.dir), path.Base(b.name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(raw) }()
	var st unix.Stat_t
	if err := unix.Fstat(raw, &st); err != nil {
		return err
	}
	n := nodeOf(&st)
	if !n.same(b.node) || !d.fresh(n) {
		return unix.EADDRINUSE
	}
	if err := d.chgrp(n, func(gid int) error { return unix.Fchownat(raw, "", -1, gid, unix.AT_EMPTY_PATH) }); err != nil {
		return err
	}
	// There is no chmod of an O_PATH descriptor before Linux 6.6 but through its name in /proc.
	return unix.Chmod(procPath(raw), mode)
}

func procPath(raw int) string { return "/proc/self/fd/" + strconv.Itoa(raw) }
