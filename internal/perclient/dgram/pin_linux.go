// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// errOther: a descriptor that was handed over does not hold the socket that it is said to.
var errOther = errors.New("the descriptor holds another file than the client's socket")

// procFd is where Linux shows a process its descriptors as links that lead to the open file itself, whatever its path has
// become. By its number, since /proc/self is one more link to follow for each frame. A daemon that executes another program
// keeps its number.
var procFd = "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/"

// A pin holds the inode of a socket: a descriptor that can be named, but neither read nor written.
type pin struct {
	fd  int
	via string // the path that leads to the inode; "" where /proc is missing
}

// pinPath opens path itself, following no link in its last part.
func pinPath(path string) (pin, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return pin{fd: -1}, st, err
	}
	return newPin(fd)
}

// newPin takes over fd, which was opened for a pin.
func newPin(fd int) (pin, unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return pin{fd: -1}, st, err
	}
	p := pin{fd: fd, via: procFd + strconv.Itoa(fd)}
	var through unix.Stat_t
	if err := unix.Stat(p.via, &through); err != nil || inodeOf(&through) != inodeOf(&st) {
		p.via = ""
	}
	return p, st, nil
}

// descriptor is what another pin of the same inode is made of.
func (p pin) descriptor() link.Descriptor { return link.Descriptor{FD: p.fd} }

// pinOf makes the pin of id of what descriptor has let go. It takes d over.
func pinOf(d link.Descriptor, id inode) (pin, error) {
	if d.IsNone() {
		return pin{fd: -1}, errOther
	}
	p, st, err := newPin(d.FD)
	switch {
	case err != nil:
		return p, fmt.Errorf("attach to a pinned path: %w", err)
	case inodeOf(&st) != id:
		p.close()
		return pin{fd: -1}, errOther
	}
	return p, nil
}

// mayHang reports whether the socket is on a file system that another machine or program serves: each use of the socket asks
// for its permissions, and may wait for the answer for ever.
func (p pin) mayHang() bool {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(p.fd, &fs); err != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.FUSE_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.AFS_FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return true
	}
	return false
}

func (p pin) close() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
	}
}

// left is not known: a socket keeps the peer that has gone until something is sent to it.
func (*reply) left() (left, known bool) { return false, false }
