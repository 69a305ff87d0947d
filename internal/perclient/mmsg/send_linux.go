// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"encoding/binary"
	"runtime"
	"sync"
	"syscall"
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
	iov [BatchLen]iovec
	to  sockaddr
	as  *credential // in whose name; nil: in ours

	// kept holds the batch as long as the iovecs have its addresses: what something in the heap refers to is on no stack.
	kept []byte
}

// freeHeaders are headers that nobody uses. There are never more of them than there were sends at one time.
var freeHeaders struct {
	sync.Mutex
	list []*headers
}

func takeHeaders() *headers {
	freeHeaders.Lock()
	defer freeHeaders.Unlock()
	n := len(freeHeaders.list)
	if n == 0 {
		return new(headers)
	}
	h := freeHeaders.list[n-1]
	freeHeaders.list = freeHeaders.list[:n-1]
	return h
}

func (h *headers) giveBack() {
	h.kept, h.as = nil, nil
	freeHeaders.Lock()
	freeHeaders.list = append(freeHeaders.list, h)
	freeHeaders.Unlock()
}

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

// send sends by sendmmsg, a single frame by sendto.
func send(fd int, to []byte, b frame.Batch) (sent int, err error) {
	if b.Len() == 1 {
		return sendOne(fd, to, b)
	}
	return sendAs(fd, to, b, nil)
}

// sendAs sends by sendmmsg in the name of as.
func sendAs(fd int, to []byte, b frame.Batch, as *credential) (sent int, err error) {
	h := takeHeaders()
	defer h.giveBack()
	if err := h.to.set(to); err != nil {
		return 0, err
	}
	h.kept, h.as = b.Bytes(), as
	it := b.Iter()
	for {
		n := h.fill(&it)
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
func (h *headers) fill(it *frame.Iter) int {
	n := 0
	for n < BatchLen && it.Next() {
		f := it.Frame()
		h.iov[n] = iovec{address(f), uintptr(len(f))}
		m := &h.hdr[n].msghdr
		m.iov, m.iovLen = uintptr(unsafe.Pointer(&h.iov[n])), 1
		m.putAs(h.as)
		m.name, m.nameLen = 0, h.to.len
		if h.to.len > 0 {
			m.name = uintptr(unsafe.Pointer(&h.to.raw))
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

// sendOne sends the only frame of b.
func sendOne(fd int, to []byte, b frame.Batch) (int, error) {
	var a sockaddr
	if err := a.set(to); err != nil {
		return 0, err
	}
	it := b.Iter()
	if !it.Next() {
		return 0, nil
	}
	f := it.Frame()
	for {
		var errno syscall.Errno
		if a.len == 0 {
			_, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(f))), uintptr(len(f)), sendFlags, 0, 0)
		} else {
			_, _, errno = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(f))), uintptr(len(f)), sendFlags,
				uintptr(unsafe.Pointer(&a.raw)), uintptr(a.len))
		}
		switch errno {
		case 0:
			return 1, nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
