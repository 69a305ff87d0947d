// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package darwinapi

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An iovec is struct iovec.
type iovec struct{ base, len uint64 }

// A msghdrX is struct msghdr_x of macOS: struct msghdr, whose lengths have 32 bits there, and a length.
type msghdrX struct {
	name       uint64
	nameLen    uint32
	_          uint32
	iov        uint64
	iovLen     int32
	_          int32
	control    uint64
	controlLen uint32
	flags      int32
	dataLen    uint64
}

// What C lays out; first fields are at 0 in any case. A difference is a division by zero while compiling.
const (
	_ = 1 / (1 - (unsafe.Sizeof(iovec{}) ^ 16))
	_ = 1 / (1 - (unsafe.Sizeof(msghdrX{}) ^ 56))
	_ = 1 / (1 - (unsafe.Offsetof(msghdrX{}.nameLen) ^ 8))
	_ = 1 / (1 - (unsafe.Offsetof(msghdrX{}.iov) ^ 16))
	_ = 1 / (1 - (unsafe.Offsetof(msghdrX{}.iovLen) ^ 24))
	_ = 1 / (1 - (unsafe.Offsetof(msghdrX{}.control) ^ 32))
	_ = 1 / (1 - (unsafe.Offsetof(msghdrX{}.controlLen) ^ 40))
	_ = 1 / (1 - (unsafe.Offsetof(msghdrX{}.flags) ^ 44))
	_ = 1 / (1 - (unsafe.Offsetof(msghdrX{}.dataLen) ^ 48))
)

// messages are the headers and iovecs of n messages in one mapping, and data bytes behind them.
type messages struct {
	mem  []byte
	hdr  []msghdrX
	iov  []iovec
	data []byte
	args [4]uintptr
}

func newMessages(n, data int) (m messages, err error) {
	hdrLen, iovLen := n*int(unsafe.Sizeof(msghdrX{})), n*int(unsafe.Sizeof(iovec{}))
	mem, err := unix.Mmap(-1, 0, hdrLen+iovLen+data, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return m, fmt.Errorf("map memory for %d messages: %w", n, err)
	}
	m.mem = mem
	m.hdr = unsafe.Slice((*msghdrX)(unsafe.Pointer(&mem[0])), n)
	m.iov = unsafe.Slice((*iovec)(unsafe.Pointer(&mem[hdrLen])), n)
	m.data = mem[hdrLen+iovLen:]
	return m, nil
}

// ready sets header i to one iovec.
func (m *messages) ready(i int, base unsafe.Pointer, size int) {
	m.iov[i] = iovec{uint64(uintptr(base)), uint64(size)}
	m.hdr[i] = msghdrX{iov: uint64(uintptr(unsafe.Pointer(&m.iov[i]))), iovLen: 1}
}

// call passes the messages from first up to end to f, which is there (Available) and never waits.
func (m *messages) call(f uintptr, fd, first, end int) (int, error) {
	if first == end {
		return 0, nil
	}
	m.args = [4]uintptr{uintptr(fd), uintptr(unsafe.Pointer(&m.hdr[first])), uintptr(end - first), unix.MSG_DONTWAIT}
	return msghdr(f, m.args[:])
}

// Free gives the memory back; no message may be in use any more. It is idempotent.
func (m *messages) Free() error {
	if m.mem == nil {
		return nil
	}
	mem := m.mem
	*m = messages{}
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("unmap messages: %w", err)
	}
	return nil
}

// A Sender sends datagrams with sendmsg_x. One goroutine at a time uses it.
type Sender struct {
	messages

	// kept holds the messages for as long as the iovecs have their addresses: what Go allocated and something refers to
	// stays where it is, and what is stored here is on no stack.
	kept [][]byte
	n    int // messages
	sent int
}

// NewSender makes a Sender of n messages, 1 to 256, which are macOS's kern.ipc.maxsendmsgx and maxrecvmsgx. Free it.
func NewSender(n int) (*Sender, error) {
	m, err := newMessages(n, 0)
	if err != nil {
		return nil, err
	}
	return &Sender{messages: m, kept: make([][]byte, n)}, nil
}

// Add appends a message, which stays borrowed until Reset. It reports false when all n are in use.
func (s *Sender) Add(msg []byte) bool {
	if s.n == len(s.hdr) {
		return false
	}
	s.kept[s.n] = msg
	s.ready(s.n, unsafe.Pointer(unsafe.SliceData(msg)), len(msg))
	s.n++
	return true
}

// Len is how many messages still have to be sent.
func (s *Sender) Len() int { return s.n - s.sent }

// Send sends what is left to fd, a connected datagram socket, without waiting, and returns how many went. Less than Len is
// no error. One of the system is a bare syscall.Errno: EAGAIN, ENOBUFS where the receiver is slow.
func (s *Sender) Send(fd int) (int, error) {
	n, err := s.call(lib().sendmsgX, fd, s.sent, s.n)
	runtime.KeepAlive(s)
	s.sent += n
	return n, err
}

// Reset drops all messages, sent or not.
func (s *Sender) Reset() {
	clear(s.kept[:s.n])
	s.n, s.sent = 0, 0
}

// A Receiver receives datagrams with recvmsg_x into slots of its own. One goroutine at a time uses it.
type Receiver struct {
	messages

	head, size int // bytes
	n          int // messages
}

// NewReceiver makes a Receiver of n slots, 1 to 256, for messages of up to size bytes, with head bytes in front of each that
// it leaves alone. Free it.
func NewReceiver(n, head, size int) (*Receiver, error) {
	m, err := newMessages(n, n*(head+size))
	if err != nil {
		return nil, err
	}
	return &Receiver{messages: m, head: head, size: size}, nil
}

// Receive receives up to n messages from fd, a datagram socket, without waiting, and returns how many came. An error of the
// system is a bare syscall.Errno, EAGAIN if there are none.
func (r *Receiver) Receive(fd int) (int, error) {
	for i := range r.hdr {
		r.ready(i, unsafe.Pointer(&r.data[i*(r.head+r.size)+r.head]), r.size)
	}
	n, err := r.call(lib().recvmsgX, fd, 0, len(r.hdr))
	r.n = min(n, len(r.hdr))
	return r.n, err
}

// Message is the i-th message of the last Receive with the head in front of it, valid until the next. It is cut to the
// slot's size if it was longer.
func (r *Receiver) Message(i int) []byte {
	slot := r.data[i*(r.head+r.size):][:r.head+r.size]
	end := r.head + int(min(r.hdr[i].dataLen, uint64(r.size)))
	return slot[:end:end]
}

// Slots is the memory of all messages: message i is what it holds from i*(head+size) on. It is the caller's between two
// Receives, so that messages can be moved together.
func (r *Receiver) Slots() []byte { return r.data }
