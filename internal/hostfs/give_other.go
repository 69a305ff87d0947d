// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hostfs

import (
	"crypto/rand"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Give gives n, a socket of this process, to uid and gid (-1: unchanged) and then sets its mode. A socket cannot be opened here, so
// its name is used, in a directory of our own beside it, where no other user can swap it: those who may write in its directory, as
// Colima's users may, could otherwise have root change a file of their choice. Where p has a directory, that is such a one. step names
// what failed.
func (p Place) Give(n Node, uid, gid int, mode uint32) (step string, err error) {
	if p.Dir != nil {
		return p.give(n, uid, gid, mode)
	}
	parent, err := os.Open(filepath.Dir(p.Name))
	if err != nil {
		return "chown", err
	}
	defer func() { _ = parent.Close() }()
	at, own := Place{parent, filepath.Base(p.Name)}, Place{parent, "." + rand.Text()}
	if err := unix.Mkdirat(own.dir(), own.Name, 0o700); err != nil {
		return "mkdir", err
	}
	defer func() { _ = unix.Unlinkat(own.dir(), own.Name, unix.AT_REMOVEDIR) }()
	private, err := own.Open(unix.O_DIRECTORY)
	if err != nil {
		return "mkdir", err
	}
	defer func() { _ = private.Close() }()
	if d, err := NodeOf(private); err != nil || int(d.UID) != os.Geteuid() || d.Mode&0o077 != 0 {
		return "mkdir", unix.EPERM
	}
	staged := Place{private, "s"}
	if err := unix.Renameat(at.dir(), at.Name, staged.dir(), staged.Name); err != nil {
		return "chown", err
	}
	step, err = staged.give(n, uid, gid, mode)
	if back := unix.Renameat(staged.dir(), staged.Name, at.dir(), at.Name); err == nil {
		step, err = "rename", back
	}
	_ = unix.Unlinkat(staged.dir(), staged.Name, 0) // still there if at is another name of it
	return step, err
}

// give is Give where nobody else can swap what is there.
func (p Place) give(n Node, uid, gid int, mode uint32) (step string, err error) {
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
