// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"encoding/binary"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	sendFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL

	// maxPath is the longest path or abstract name in bytes, the zero in front of the latter included.
	maxPath = 108
)

// headers are what sendmmsg works on. They are in the heap, since nothing there moves.
type headers struct {
	hdr [BatchLen]mmsghdr
	iov [BatchLen]unix.Iovec
	to  sockaddr
}

// freeHeaders are headers that no send uses.
var freeHeaders = Pool[*headers]{Drop: func(*headers) {}}

// A sockaddr is a sockaddr_un and its length.
type sockaddr struct {
	raw [nameLen]byte
	len uint32
}

// set fills in path, which begins with 0 if it is abstract. No path is no address.
func (a *sockaddr) set(path []byte) error {
	a.len = 0
	switch {
	case path == nil:
		return nil
	case len(path) > maxPath:
		return unix.ENAMETOOLONG
	}
	binary.NativeEndian.PutUint16(a.raw[:], unix.AF_UNIX)
	n := pathAt + copy(a.raw[pathAt:], path)
	if path[0] != 0 && len(path) < maxPath { // a path ends with 0 if there is room
		a.raw[n] = 0
		n++
	}
	a.len = uint32(n)
	return nil
}

// credentials is the control message that names a user and a group, nil if the system does not allow that. The process named remains
// our own: the system takes a foreign one only while it lives, and its number may be another's by then.
func credentials(uid, gid uint32) []byte {
	as := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uid, Gid: gid})
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
	if unix.Sendmsg(fds[0], []byte{0}, as, nil, 0) != nil {
		return nil
	}
	return as
}

// send sends by sendmmsg, with the control message as unless that is nil.
func send(fd int, to []byte, b frame.Batch, as []byte) (sent int, err error) {
	h, ok := freeHeaders.Get()
	if !ok {
		h = new(headers)
	}
	defer func() {
		clear(h.iov[:]) // of addresses of the batch
		freeHeaders.Put(h)
	}()
	if err := h.to.set(to); err != nil {
		return 0, err
	}
	it := b.Iter()
	for {
		n := h.fill(&it, as)
		if n == 0 {
			return sent, nil
		}
		k, err := h.send(fd, n)
		sent += k
		if err != nil {
			return sent, err
		}
	}
}

// fill sets up the next messages and returns how many, 0 at the end of the batch.
func (h *headers) fill(it *frame.Iter, as []byte) int {
	n := 0
	for n < BatchLen && it.Next() {
		f := it.Frame()
		h.iov[n].Base = &f[0]
		h.iov[n].SetLen(len(f))
		m := &h.hdr[n].Msghdr
		m.Iov, m.Control, m.Name, m.Namelen = &h.iov[n], unsafe.SliceData(as), nil, h.to.len
		m.SetIovlen(1)
		m.SetControllen(len(as))
		if h.to.len > 0 {
			m.Name = &h.to.raw[0]
		}
		n++
	}
	return n
}

// send sends the first n messages. The system stops at the first one that does not go and tells why only when that is the
// first of a call.
func (h *headers) send(fd, n int) (sent int, err error) {
	for sent < n {
		k, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&h.hdr[sent])), uintptr(n-sent), sendFlags, 0, 0)
		switch errno {
		case 0:
			sent += int(k)
		case unix.EINTR:
		default:
			return sent, errno
		}
	}
	runtime.KeepAlive(h)
	return sent, nil
}
