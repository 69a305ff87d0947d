// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"os"

	"golang.org/x/sys/unix"
)

// A node is what a file system knows of a file.
type node struct {
	dev, ino, nlink uint64
	mode            uint32 // with the kind of file
	uid, gid        uint32
}

func (n node) kind() uint32 { return n.mode & unix.S_IFMT }

func (n node) same(o node) bool { return n.dev == o.dev && n.ino == o.ino }

// nodeOf takes the fields whose types differ between systems.
func nodeOf(st *unix.Stat_t) node {
	return node{
		dev: uint64(st.Dev), ino: st.Ino, nlink: uint64(st.Nlink), //nolint:unconvert // some are narrower on other systems
		mode: uint32(st.Mode), uid: st.Uid, gid: st.Gid, //nolint:unconvert // so is this
	}
}

func stat(f *os.File) (node, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd(f), &st)
	return nodeOf(&st), err
}

// statAt follows no link.
func statAt(dir *os.File, name string) (node, error) {
	var st unix.Stat_t
	err := unix.Fstatat(fd(dir), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return nodeOf(&st), err
}

// openDir opens a directory. flags tell for what.
func openDir(dir int, name string, flags int) (*os.File, error) {
	raw, err := unix.Openat(dir, name, flags|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(raw), name), nil
}

func fd(f *os.File) int { return int(f.Fd()) }
