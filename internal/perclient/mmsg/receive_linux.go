// SPDX-License-Identifier: Apache-2.0

package mmsg

import (
	"bytes"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// An mmsghdr is struct mmsghdr.
type mmsghdr struct {
	unix.Msghdr
	n uint32
}

const (
	// nameLen is room for a sockaddr_un: Linux returns one byte more than the structure has for the longest path.
	nameLen = 112
	// pathAt is where the path begins in it.
	pathAt = 2

	nearStride = frame.PrefixLen + frame.MaxEthernetLen

	// overflowUID is what stands for a user that the system cannot tell.
	overflowUID = 65534
)

// A credential is room for one control message with a struct ucred.
type credential struct {
	unix.Cmsghdr
	unix.Ucred
	_ [4]byte // CMSG_SPACE rounds up
}

// A batch receives by recvmmsg. Each message has two iovecs: the near slot, which an Ethernet frame fills exactly, so that a
// burst of full frames needs no moving, and the rest of the far slot. All of it is in the heap, since nothing there moves, but for the
// data.
type batch struct {
	hdr   [BatchLen]mmsghdr
	iov   [BatchLen][2]unix.Iovec
	path  [BatchLen][nameLen]byte
	cred  [BatchLen]credential
	mem   []byte
	names bool
}

// newReceiver makes a Receiver that uses recvmmsg.
func newReceiver(names bool) (*Receiver, error) {
	const near, far = BatchLen * nearStride, BatchLen * farStride
	mem, err := MapMemory(near + far)
	if err != nil {
		return nil, err
	}
	w := &batch{mem: mem, names: names}
	r := &Receiver{way: w, names: names, slots: slots{near: mem[:near:near], nearLen: frame.MaxEthernetLen, far: mem[near:]}}
	for i := range w.hdr {
		w.iov[i][0].Base = &r.near[i*nearStride+frame.PrefixLen]
		w.iov[i][0].SetLen(frame.MaxEthernetLen)
		w.iov[i][1].Base = &r.far[i*farStride+frame.PrefixLen+frame.MaxEthernetLen]
		w.iov[i][1].SetLen(MaxLen - frame.MaxEthernetLen)
		w.hdr[i].Iov = &w.iov[i][0]
		w.hdr[i].SetIovlen(len(w.iov[i]))
		if names {
			w.hdr[i].Name = &w.path[i][0]
			w.hdr[i].Control = (*byte)(unsafe.Pointer(&w.cred[i]))
		}
	}
	return r, nil
}

// receive does not announce the call to Go's scheduler, since it does not wait; see package link.
func (w *batch) receive(fd int, s *slots) (int, error) {
	if w.names {
		for i := range w.hdr {
			w.hdr[i].Namelen = nameLen
			w.hdr[i].SetControllen(int(unsafe.Sizeof(credential{})))
		}
	}
	n, errno := uintptr(0), syscall.Errno(unix.EINTR)
	for errno == unix.EINTR {
		n, _, errno = unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&w.hdr)), BatchLen, unix.MSG_DONTWAIT, 0, 0)
	}
	if errno != 0 {
		return 0, errno
	}
	for i := range w.hdr[:n] {
		s.size[i] = w.hdr[i].n
		if w.hdr[i].Flags&unix.MSG_TRUNC != 0 {
			s.size[i] = MaxLen + 1
		}
	}
	return int(n), nil
}

func (w *batch) name(i int) []byte {
	n := int(w.hdr[i].Namelen)
	if !w.names || n <= pathAt {
		return nil
	}
	path := w.path[i][pathAt:min(n, nameLen)]
	if path[0] == 0 { // abstract: zeros may be part of it
		return path
	}
	path, _, _ = bytes.Cut(path, []byte{0})
	return path
}

// sender is in the control message. The system writes one whenever SO_PASSCRED is set. It knows no sender, and writes process 0
// and overflowUID, of a datagram that was sent before that; process 0 alone is a sender in another PID namespace.
func (w *batch) sender(i int) (int, uint32, bool) {
	c := &w.cred[i]
	if !w.names || int(w.hdr[i].Controllen) < int(unsafe.Offsetof(c.Ucred)+unix.SizeofUcred) ||
		c.Level != unix.SOL_SOCKET || c.Type != unix.SCM_CREDENTIALS || c.Pid == 0 && c.Uid == overflowUID {
		return 0, 0, false
	}
	return int(c.Pid), c.Uid, true
}

func (w *batch) free() error { return unix.Munmap(w.mem) }
