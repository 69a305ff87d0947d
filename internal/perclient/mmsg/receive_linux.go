// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// An iovec is struct iovec, a msghdr struct msghdr and an mmsghdr struct mmsghdr. Addresses are numbers: what they point to
// does not move, and is kept by whoever fills them in.
type (
	iovec  struct{ base, len uintptr }
	msghdr struct {
		name       uintptr
		nameLen    uint32
		iov        uintptr
		iovLen     uintptr
		control    uintptr
		controlLen uintptr
		flags      int32
	}
	mmsghdr struct {
		msghdr
		n uint32
	}
)

// What C lays out. A difference is a division by zero while compiling.
const (
	_ = 1 / (1 - (unsafe.Sizeof(iovec{}) ^ unsafe.Sizeof(unix.Iovec{})))
	_ = 1 / (1 - (unsafe.Sizeof(msghdr{}) ^ unsafe.Sizeof(unix.Msghdr{})))
	_ = 1 / (1 - (unsafe.Offsetof(msghdr{}.iov) ^ unsafe.Offsetof(unix.Msghdr{}.Iov)))
	_ = 1 / (1 - (unsafe.Offsetof(msghdr{}.flags) ^ unsafe.Offsetof(unix.Msghdr{}.Flags)))
	_ = 1 / (1 - (unsafe.Offsetof(mmsghdr{}.n) ^ unsafe.Sizeof(unix.Msghdr{})))
)

const (
	// nameLen is room for a sockaddr_un: Linux returns one byte more than the structure has for the longest path.
	nameLen = 112
	// pathAt is where the path begins in it.
	pathAt = 2

	nearStride = frame.PrefixLen + frame.MaxEthernetLen
)

// layout is what recvmmsg works on, in memory that does not move. The data lies behind it.
type layout struct {
	hdr  [BatchLen]mmsghdr
	iov  [BatchLen][2]iovec
	name [BatchLen][nameLen]byte
	cred [BatchLen]credential
}

// A batch receives by recvmmsg. Each message has two iovecs: the near slot, which an Ethernet frame fills exactly, so that a
// burst of full frames needs no moving, and the rest of the far slot.
type batch struct {
	mem   []byte
	lay   *layout
	names bool
}

// newReceiver makes a Receiver that uses recvmmsg.
func newReceiver(names bool) (*Receiver, error) {
	const near, far = BatchLen * nearStride, BatchLen * farStride
	mem, err := mapMemory(int(unsafe.Sizeof(layout{})) + near + far)
	if err != nil {
		return nil, err
	}
	w := &batch{mem: mem, lay: (*layout)(unsafe.Pointer(unsafe.SliceData(mem))), names: names}
	data := mem[unsafe.Sizeof(layout{}):]
	r := &Receiver{way: w, names: names, slots: slots{near: data[:near:near], nearLen: frame.MaxEthernetLen, far: data[near:]}}
	for i := range w.lay.hdr {
		w.lay.iov[i] = [2]iovec{
			{address(r.near[i*nearStride+frame.PrefixLen:]), frame.MaxEthernetLen},
			{address(r.far[i*farStride+frame.PrefixLen+frame.MaxEthernetLen:]), MaxLen - frame.MaxEthernetLen},
		}
		w.lay.hdr[i].iov = uintptr(unsafe.Pointer(&w.lay.iov[i]))
		w.lay.hdr[i].iovLen = uintptr(len(w.lay.iov[i]))
		if names {
			w.lay.hdr[i].name = uintptr(unsafe.Pointer(&w.lay.name[i]))
			w.lay.hdr[i].control = uintptr(unsafe.Pointer(&w.lay.cred[i]))
		}
	}
	return r, nil
}

// address is where b begins.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// receive does not announce the call to Go's scheduler, since it does not wait; see package link.
func (w *batch) receive(fd int, s *slots) (int, error) {
	if w.names {
		for i := range w.lay.hdr {
			w.lay.hdr[i].nameLen = nameLen
			w.lay.hdr[i].controlLen = unsafe.Sizeof(credential{})
		}
	}
	var n uintptr
	for {
		var errno syscall.Errno
		n, _, errno = unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(w.lay)), BatchLen, unix.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			break
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
	for i := range w.lay.hdr[:n] {
		h := &w.lay.hdr[i]
		s.size[i] = h.n
		if h.flags&unix.MSG_TRUNC != 0 {
			s.size[i] = MaxLen + 1
		}
	}
	return int(n), nil
}

func (w *batch) name(i int) []byte {
	n := int(w.lay.hdr[i].nameLen)
	if !w.names || n <= pathAt {
		return nil
	}
	path := w.lay.name[i][pathAt:min(n, nameLen)]
	if path[0] == 0 { // abstract: zeros may be part of it
		return path
	}
	if end := bytes.IndexByte(path, 0); end >= 0 {
		path = path[:end]
	}
	return path
}

func (w *batch) free() error { return unix.Munmap(w.mem) }
