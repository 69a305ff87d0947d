// SPDX-License-Identifier: Apache-2.0

// Package mmsg sends and receives many datagrams of a unix socket with one system call, one Ethernet frame in each and no
// length in front: recvmmsg and sendmmsg on Linux, recvmsg_x and sendmsg_x on macOS where the system has them, else one call
// per datagram. Nothing in it waits, whatever the descriptor's flags say, where the system lets a single call say so.
//
// It also has the free list of what clients share, Pool.
package mmsg

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// BatchLen is how many datagrams one call moves. More gained nothing on Linux.
	BatchLen = 32

	// MaxLen is the longest frame that is carried as a datagram, in bytes: a TCP segment of 64 KiB with its Ethernet header,
	// which is what libkrun's buffers are made for.
	MaxLen = 65550
)

// A Sender sends batches of frames, one datagram each. It holds no memory between calls. Several goroutines may use one.
type Sender struct {
	send func(fd int, to []byte, b frame.Batch, as []byte) (int, error)
	as   []byte // a control message with the user in whose name; nil: in ours
}

// NewSender makes a Sender.
func NewSender() *Sender { return &Sender{send: send} }

// As has everything be sent in the name of a user and a group from now on, and reports whether the system has that, as Linux, and
// allows it: with CAP_SETUID and CAP_SETGID. It is called before the first Send.
func (s *Sender) As(uid, gid uint32) bool {
	s.as = credentials(uid, gid)
	return s.as != nil
}

// Send sends the frames of b in order from fd, without waiting whatever fd's flags say where the system allows that (macOS
// does not), and returns how many went. to is the path of the socket that gets them, one beginning with 0 an abstract name;
// nil if fd is connected. Fewer than all come with the error for the first one that did not go, a bare number of the
// system: EAGAIN or ENOBUFS when there is no room now, EMSGSIZE when that frame is too long for the socket.
func (s *Sender) Send(fd int, to []byte, b frame.Batch) (sent int, err error) {
	if b.Len() == 0 {
		return 0, nil
	}
	if to != nil && len(to) == 0 {
		return 0, unix.EINVAL
	}
	return s.send(fd, to, b, s.as)
}

// trimEvery is how long something lies unused before it is given up.
const trimEvery = 250 * time.Millisecond

// A Pool is a free list, of what all clients of the process share: one holds memory only while it has something to read or to send.
// A timer runs only while something lies unused.
type Pool[T any] struct {
	Drop func(T) // gives up what was not needed

	mu    sync.Mutex
	free  []T
	low   int // fewest free ones since the last trim: that many were not needed
	armed bool
}

// Get returns a free one, if there is one: the one that was put last.
func (p *Pool[T]) Get() (v T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		p.low = 0
		return v, false
	}
	v = p.free[n-1]
	p.free = slices.Delete(p.free, n-1, n)
	p.low = min(p.low, n-1)
	return v, true
}

// Put gives one back.
func (p *Pool[T]) Put(v T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, v)
	if !p.armed {
		p.armed = true
		p.low = len(p.free)
		time.AfterFunc(trimEvery, p.trim)
	}
}

// trim gives up what was not needed since the last time.
func (p *Pool[T]) trim() {
	p.mu.Lock()
	idle := slices.Clone(p.free[:p.low])
	p.free = slices.Delete(p.free, 0, p.low)
	p.low = len(p.free)
	if p.armed = p.low > 0; p.armed {
		time.AfterFunc(trimEvery, p.trim)
	}
	p.mu.Unlock()
	for _, v := range idle { // outside the lock: with many it takes tens of milliseconds
		p.Drop(v)
	}
}
