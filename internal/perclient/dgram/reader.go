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
		sh.dispatch(n)
	}
	return nil
}

// panicked logs what recover returned, and makes an error of it. The log counts lines that repeat.
func (s *Server) panicked(doing string, r any) error {
	s.opts.Log.Error("internal error: other clients are served on; please report it",
		"doing", doing, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	return fmt.Errorf("panic while %s: %v", doing, r)
}

// dispatch hands the n datagrams that were received to their clients. Consecutive ones of one sender go together.
func (sh *shared) dispatch(n int) {
	for first := 0; first < n; {
		name := sh.rcv.Name(first)
		from := sh.sender(first)
		end := first + 1
		for end < n && bytes.Equal(sh.rcv.Name(end), name) && sh.sender(end) == from {
			end++
		}
		sh.from(name, from, first, end)
		first = end
	}
}

// A sender is the process and user that sent a datagram, as far as the system tells.
type sender struct {
	uid   uint32
	self  bool // it is this process
	known bool
}

// is reports whether the sender may speak for a socket of the owner uid. Root may do anything, and where the system does not tell
// the user is 0.
func (f sender) is(uid uint32) bool { return f.uid == uid || f.uid == 0 }

// sender is what sent message i.
func (sh *shared) sender(i int) sender {
	pid, uid, ok := sh.rcv.Sender(i)
	return sender{uid: uid, self: ok && pid == sh.srv.self, known: ok}
}

// from takes the datagrams first to end-1, which name has sent. A panic ends the client that they are of, and nothing else.
func (sh *shared) from(name []byte, from sender, first, end int) {
	s := sh.srv
	if !replyOnly && !from.known { // it came before the socket was set up
		s.refused.add(early, end-first)
		return
	}
	if from.self { // by a socket that a client has handed over and then connected to this one
		s.refused.tell(refuse(string(name), loop, nil), end-first)
		return
	}
	var c *client
	defer func() {
		if r := recover(); r != nil {
			if err := s.panicked("reading datagrams", r); c != nil {
				c.end(err)
			}
		}
	}()
	for taken := false; !taken; { // one that is found may have ended, and the address may be another client's
		if c = sh.find(name, from, end-first); c == nil {
			return
		}
		faults.In("dgram.read", name)
		if data, _ := sh.rcv.Msg(first); string(data) == mmsg.Hello { // a client begins, which may be another one than c: that has gone then
			c.Check()
		}
		taken = c.take(sh.rcv, first, end)
	}
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
	case c != nil && c.from != itself, s.looks.Load() >= maxLooks: // one that was invited gives way
		s.refused.add(slow, n)
	default:
		return s.newcomer(string(name), from, sh)
	}
	return nil
}
