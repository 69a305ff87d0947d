// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// sock_diag tells about the sockets of the own network namespace, also those of others, without privileges. It is asked for
// one socket by its number, which is found once in the list of all, by the inode of its path.
//
//	struct nlmsghdr (16 bytes)
//	request: family u8, protocol u8, pad u16, states u32, ino u32, show u32, cookie [2]u32
//	answer:  family u8, type u8, state u8, pad u8, ino u32, cookie [2]u32, then attributes: len u16, type u16, data
const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY

	showVFS    = 2    // UDIAG_SHOW_VFS
	showQueue  = 0x10 // UDIAG_SHOW_RQLEN
	attrVFS    = 1    // UNIX_DIAG_VFS: ino u32, dev u32
	attrQueue  = 4    // UNIX_DIAG_RQLEN: rqueue u32, wqueue u32
	requestLen = unix.SizeofNlMsghdr + 24
	answerLen  = 16
	anyState   = 0xffffffff
	diagBufLen = 32 << 10
)

// A diagSocket is a socket's number and cookie. A number of 0 is none yet.
type diagSocket struct {
	ino    uint32
	cookie [8]byte
	search *search // for the number
}

// anyCookie stands for a cookie that is not known.
var anyCookie = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}

// A diagnoser asks sock_diag. Its zero value is ready for use; where sock_diag is not to be had it knows nothing.
type diagnoser struct {
	shared int // the descriptor of the shared socket
	finder finder

	// mu covers one question about one socket, 10 us.
	mu     sync.Mutex
	table  table
	open   bool
	dev    map[uint64]uint32 // device numbers that the kernel has others for than stat tells, as with btrfs
	failed bool              // it is not to be had
}

// empty reports whether the receive queue of t's socket is known to be empty. s is t's number, which is searched for at the
// first time: until it is found nothing is known.
func (d *diagnoser) empty(s *diagSocket, t *Target) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.number(s, t) {
		return false
	}
	queued, ok := d.table.queue(s)
	return ok && queued == 0
}

// prepare has t's number searched for, before it is needed.
func (d *diagnoser) prepare(s *diagSocket, t *Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number(s, t)
}

// number reports whether t's number is known. The caller holds mu.
func (d *diagnoser) number(s *diagSocket, t *Target) bool {
	if d.failed || !d.open && !d.start() {
		return false
	}
	if s.ino != 0 {
		return true
	}
	dev, ok := d.dev[t.id.dev]
	if !ok {
		dev = kernelDev(t.id.dev)
	}
	return d.finder.find(s, dev, uint32(t.id.ino))
}

// start opens the netlink socket.
func (d *diagnoser) start() bool {
	if err := d.table.start(); err != nil {
		d.failed = true
		return false
	}
	d.open = true
	d.learn()
	return true
}

// learn compares what stat and what the kernel say about the shared socket's own file: clients' are mostly beside it.
func (d *diagnoser) learn() {
	var sock, file unix.Stat_t
	addr, err := unix.Getsockname(d.shared)
	a, ok := addr.(*unix.SockaddrUnix)
	if err != nil || !ok || unix.Fstat(d.shared, &sock) != nil || lstat(a.Name, &file) != nil {
		return
	}
	s := diagSocket{ino: uint32(sock.Ino), cookie: anyCookie}
	if !d.table.ask(&s, showVFS) {
		return
	}
	d.table.answers(func(_, attrs []byte) {
		e := binary.NativeEndian
		if v := attr(attrs, attrVFS); len(v) >= 8 && e.Uint32(v) == uint32(file.Ino) {
			d.dev = map[uint64]uint32{file.Dev: e.Uint32(v[4:])}
		}
	})
}

// close ends everything for good.
func (d *diagnoser) close() {
	d.finder.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open {
		d.table.close()
	}
	d.open, d.failed = false, true
}

// A table is a netlink socket that answers questions about sockets. One goroutine at a time uses it.
type table struct {
	fd  int
	buf []byte
	req [requestLen]byte
	seq uint32
}

// start opens the socket.
func (d *table) start() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return fmt.Errorf("open sock_diag: %w", err)
	}
	// The kernel answers at once; the limit is for what nobody thought of.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	d.fd, d.buf = fd, make([]byte, diagBufLen)
	return nil
}

func (d *table) close() { _ = unix.Close(d.fd) }

// ask sends a request for s, or for all sockets.
func (d *table) ask(s *diagSocket, show uint32) bool {
	d.seq++
	req := d.req[:]
	clear(req)
	e := binary.NativeEndian
	e.PutUint32(req[0:], requestLen)
	e.PutUint16(req[4:], diagByFamily)
	e.PutUint16(req[6:], unix.NLM_F_REQUEST)
	e.PutUint32(req[8:], d.seq)
	body := req[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_UNIX
	e.PutUint32(body[4:], anyState)
	e.PutUint32(body[12:], show)
	if s != nil {
		e.PutUint32(body[8:], s.ino)
		copy(body[16:], s.cookie[:])
	} else {
		e.PutUint16(req[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	}
	n, err := unix.Write(d.fd, req)
	return err == nil && n == requestLen
}

// answers reads once and calls got for each answer. done: the last one was among them, or there was an error.
func (d *table) answers(got func(head, attrs []byte)) (done bool) {
	n, err := unix.Read(d.fd, d.buf)
	if err == unix.EINTR {
		return false
	}
	if err != nil {
		return true
	}
	e := binary.NativeEndian
	for b := d.buf[:n]; len(b) >= unix.SizeofNlMsghdr; {
		size := int(e.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return true
		}
		kind, flags, seq := e.Uint16(b[4:]), e.Uint16(b[6:]), e.Uint32(b[8:])
		if seq == d.seq { // else it is late
			switch {
			case kind == unix.NLMSG_DONE, kind == unix.NLMSG_ERROR:
				return true
			case kind == diagByFamily && size >= unix.SizeofNlMsghdr+answerLen:
				got(b[unix.SizeofNlMsghdr:][:answerLen], b[unix.SizeofNlMsghdr+answerLen:size])
				done = flags&unix.NLM_F_MULTI == 0
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return done
}

// attr is the data of the attribute of a kind.
func attr(attrs []byte, kind uint16) []byte {
	e := binary.NativeEndian
	for len(attrs) >= 4 {
		size := int(e.Uint16(attrs))
		if size < 4 || size > len(attrs) {
			return nil
		}
		if e.Uint16(attrs[2:]) == kind {
			return attrs[4:size]
		}
		attrs = attrs[min((size+3)&^3, len(attrs)):]
	}
	return nil
}

// kernelDev is a device number as the kernel has it, from what stat says.
func kernelDev(dev uint64) uint32 { return unix.Major(dev)<<20 | unix.Minor(dev) }

// queue is how many bytes the first datagram in the receive queue of s has; 0 when there is none.
func (d *table) queue(s *diagSocket) (n uint32, ok bool) {
	if !d.ask(s, showQueue) {
		return 0, false
	}
	for !ok {
		if d.answers(func(_, attrs []byte) {
			if v := attr(attrs, attrQueue); len(v) >= 8 {
				n, ok = binary.NativeEndian.Uint32(v), true
			}
		}) {
			break
		}
	}
	return n, ok
}
