// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// hello is what vfkit and libkrun send first on a path: not a frame, but a client that is there.
var hello = []byte("VFKT")

// release gives the receive memory back.
func (sh *shared) release() {
	if sh.rcv != nil {
		sh.rcv.Free()
		sh.rcv = nil
	}
}

// drain receives most times at most, and hands on, until nothing is left, which is no error, or the Server is halted.
func (sh *shared) drain(fd, most int) (err error) {
	for ; most > 0 && !sh.srv.stopping.Load(); most-- {
		if sh.rcv == nil {
			if sh.rcv, err = mmsg.NewReceiver(true); err != nil {
				sh.rcv = nil
				return err
			}
		}
		n, err := sh.rcv.Receive(fd)
		if err == unix.EAGAIN {
			sh.release()
			return nil
		}
		if err != nil {
			return err
		}
		for next := 0; next < n; {
			next = sh.dispatchSafely(next, n)
		}
	}
	return nil
}

// dispatchSafely is dispatch, of which a panic ends the client that it was about, if any, and nothing else. It returns which
// datagram is next: after a panic the first one of another sender.
func (sh *shared) dispatchSafely(first, n int) (next int) {
	defer func() {
		if r := recover(); r != nil {
			err := sh.srv.panicked("reading datagrams", r)
			if sh.at != nil {
				sh.at.end(err)
			}
			sh.at, sh.last = nil, nil
		}
	}()
	sh.dispatch(first, n, &next)
	return n
}

// panicked logs what recover returned, now and then, and makes an error of it.
func (s *Server) panicked(doing string, r any) error {
	s.refused.mu.Lock()
	due := time.Since(s.refused.broke) >= warnEvery
	if due {
		s.refused.broke = time.Now()
	}
	s.refused.mu.Unlock()
	if due {
		s.opts.Log.Error("internal error: other clients are served on; please report it",
			"doing", doing, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
	return fmt.Errorf("panic while %s: %v", doing, r)
}

// dispatch hands the datagrams first to n-1 that were received to their clients. Consecutive ones of one sender go together.
// next is kept behind those that are done or being dealt with.
func (sh *shared) dispatch(first, n int, next *int) {
	*next = n
	for first < n {
		name := sh.rcv.Name(first)
		who := sh.sender(first)
		end := first + 1
		for end < n && bytes.Equal(sh.rcv.Name(end), name) && sh.sender(end) == who {
			end++
		}
		*next = end
		sh.from(name, who, first, end)
		first = end
	}
}

// A sender is who sent a datagram, as far as the system tells.
type sender struct {
	uid   uint32
	self  bool // it is this process
	known bool
}

// is reports whether the sender may speak for a socket of the owner uid. Root may do anything, and where the system does not tell
// the user is 0.
func (f sender) is(uid uint32) bool { return f.uid == uid || f.uid == 0 }

// sender is who sent message i.
func (sh *shared) sender(i int) sender {
	pid, uid, ok := sh.rcv.Sender(i)
	return sender{uid: uid, self: ok && pid == sh.srv.self, known: ok}
}

// from takes the datagrams first to end-1, which name has sent.
func (sh *shared) from(name []byte, from sender, first, end int) {
	refused := &sh.srv.refused
	if !replyOnly && !from.known { // it came before the socket was set up
		refused.add(early, end-first)
		return
	}
	if from.self { // by a socket that a client has handed over and then connected to this one
		refused.tell(refuse(string(name), loop, nil), end-first)
		return
	}
	c := sh.last
	if c == nil || sh.who != from || c.path != string(name) {
		c = sh.find(name, from, end-first)
	}
	for c != nil && !sh.give(c, first, end) { // it has ended, and the address may be another client's
		c = sh.find(name, from, end-first)
	}
	sh.last, sh.who = c, from
}

// give hands the datagrams first to end-1 to c, unless that has ended. A hello says that a client begins, which may be another one
// than c: that has gone then.
func (sh *shared) give(c *client, first, end int) bool {
	sh.at = c
	faults.In("dgram.read", sh.rcv.Name(first))
	if data, _ := sh.rcv.Msg(first); bytes.Equal(data, hello) {
		c.Check()
	}
	taken := c.take(sh.rcv, first, end)
	sh.at = nil
	return taken
}

// find is the client of an address, or one that is about to be made. It is nil when the address is not trusted, after n datagrams
// were counted.
func (sh *shared) find(name []byte, from sender, n int) *client {
	s := sh.srv
	s.mu.Lock()
	if c := s.clients[string(name)]; c != nil && from.is(c.uid) {
		s.mu.Unlock()
		return c
	}
	c := s.coming[string(name)]
	s.mu.Unlock()
	if c != nil && c.from == from {
		return c
	}
	r := classify(name)
	switch {
	case r != "":
		s.refused.tell(refuse(string(name), r, nil), n)
	case s.refused.recently(name, from.uid, time.Now(), n):
	case c != nil, s.looks.Load() >= maxLooks:
		s.refused.add(slow, n)
	default:
		return s.newcomer(string(name), from, sh)
	}
	return nil
}
