// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// parentFlags open a directory in which only names are used: it need not be readable.
const parentFlags = unix.O_PATH

// bind binds s to the last element of name in dir, and returns the name that the system has for it from then on. There is
// no bind that takes a directory. Its true path serves where nobody else can change where that leads; else its name in
// /proc, which leads to the very directory that is open, wherever it has been moved, and means nothing to others.
func (d *Dir) bind(s, dir *os.File, name string) (string, error) {
	where := procPath(fd(dir))
	if p, ok := d.truePath(dir); ok && len(p)+1+len(path.Base(name)) <= compat.MaxSocketPath {
		where = p
	}
	where += "/" + path.Base(name)
	return where, compat.BindPrivate(fd(s), where)
}

// truePath is the path of dir without links in it. ok: each directory on it belongs to root or to us and lets nobody else
// rename what is in it.
func (d *Dir) truePath(dir *os.File) (p string, ok bool) {
	p, err := os.Readlink(procPath(fd(dir)))
	if err != nil || !strings.HasPrefix(p, "/") {
		return "", false
	}
	n, err := stat(dir)
	if err != nil {
		return "", false
	}
	var there unix.Stat_t
	if unix.Lstat(p, &there) != nil || !n.same(nodeOf(&there)) {
		return "", false
	}
	at := dir
	for {
		if n.uid != 0 && n.uid != d.euid || n.mode&0o022 != 0 && n.mode&unix.S_ISVTX == 0 {
			return "", false
		}
		up, err := openDir(fd(at), "..", parentFlags)
		if at != dir {
			_ = at.Close()
		}
		if err != nil {
			return "", false
		}
		above, err := stat(up)
		if err != nil || above.same(n) { // the root is its own parent
			_ = up.Close()
			return p, err == nil
		}
		at, n = up, above
	}
}

// prepare has datagrams carry their sender's user from the first one on.
func prepare(s *os.File, kind int) error {
	if kind != unix.SOCK_DGRAM {
		return nil
	}
	return unix.SetsockoptInt(fd(s), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
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
