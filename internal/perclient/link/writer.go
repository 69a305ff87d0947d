// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A streamPipe is a pipe into a stream socket. A write may cut a frame. The frame counts as taken then, and what is left of it
// is owed to the client, however full its queue is: without it the client would lose the framing.
type streamPipe struct {
	fd   int
	rc   syscall.RawConn
	rest []byte       // what is owed, the begin of a chunk; nil: nothing
	left atomic.Int64 // len(rest), for the Outbox, which asks while the drainer sends
}

// Send implements pipe. Only what is owed may be left when all of b is taken.
func (p *streamPipe) Send(b frame.Batch) (taken int, err error) {
	if p.rest != nil {
		n, err := writeNow(p.fd, p.rest)
		p.owe(p.rest[n:])
		if p.rest != nil || b.Len() == 0 {
			return 0, err
		}
	}
	buf := b.Bytes()
	n, err := writeNow(p.fd, buf)
	if n == len(buf) {
		return b.Len(), nil
	}
	it := b.Iter()
	for it.Next() && it.End() <= n {
		taken++
	}
	if n > it.Offset() {
		if p.rest, _ = chunks.get(); p.rest == nil {
			return taken, fmt.Errorf("keep the rest of a frame: %w", errNoMemory)
		}
		p.owe(buf[n:it.End()])
		taken++
	}
	return taken, err
}

// owe keeps rest, of a frame that was cut, in the chunk at hand.
func (p *streamPipe) owe(rest []byte) {
	p.rest = p.rest[:copy(p.rest[:cap(p.rest)], rest)]
	p.left.Store(int64(len(rest)))
	if len(rest) == 0 {
		p.forget()
	}
}

// forget gives up what is owed.
func (p *streamPipe) forget() {
	if p.rest != nil {
		chunks.Put(p.rest)
	}
	p.rest = nil
	p.left.Store(0)
}

// owed is how many bytes of a frame that was cut are left to write.
func (p *streamPipe) owed() int { return int(p.left.Load()) }

// Wait implements pipe. It is woken by the deadline that Close and Save set, so stop need not be looked at.
func (p *streamPipe) Wait(<-chan struct{}) {
	WaitWritable(p.rc)
}

// WaitWritable waits until the socket is writable or its write deadline has passed.
func WaitWritable(rc syscall.RawConn) {
	_ = rc.Write(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// writeNow writes what the socket takes without waiting and returns how much that was.
func writeNow(fd int, b []byte) (int, error) {
	for {
		n, err := writeOnce(fd, b)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}
