// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// hello is what vfkit and libkrun send first on a path: not a frame, but a client that is there.
var hello = []byte("VFKT")

// readPause is how long the reader rests after an error of the shared socket that it cannot do anything about.
const readPause = 10 * time.Millisecond

// readLoop reads until the Server is halted or the socket is closed.
func (sh *shared) readLoop() {
	s := sh.srv
	for warned := (time.Time{}); !s.stopping.Load(); {
		err := sh.readAll()
		if s.stopping.Load() || sh.gone() {
			break
		}
		if time.Since(warned) >= warnEvery {
			warned = time.Now()
			s.opts.Log.Warn("cannot read datagrams, trying again", "error", err)
		}
		time.Sleep(readPause)
	}
	sh.release()
	sh.last = nil
}

// release gives the receive memory back.
func (sh *shared) release() {
	if sh.rcv != nil {
		sh.rcv.Free()
		sh.rcv = nil
	}
}

// readAll reads and dispatches datagrams until an error or the end. All of it runs inside one RawConn.Read, whose callback
// returns false to wait for the next event; the poller reports edges, so it reads until there is nothing.
func (sh *shared) readAll() (err error) {
	s := sh.srv
	poll := sh.rc.Read(func(fd uintptr) bool {
		sh.busy.Store(true)
		defer sh.busy.Store(false)
		for {
			if s.stopping.Load() {
				return true
			}
			if sh.rcv == nil {
				if sh.rcv, err = mmsg.NewReceiver(true); err != nil {
					sh.rcv = nil
					return true
				}
			}
			n, rerr := sh.rcv.Receive(int(fd))
			switch {
			case rerr == unix.EAGAIN:
				sh.release()
				return false
			case rerr != nil:
				err = rerr
				return true
			}
			for next := 0; next < n; {
				next = sh.dispatchSafely(next, n)
			}
		}
	})
	if err == nil {
		err = poll
	}
	return err
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

// sender is who sent message i.
func (sh *shared) sender(i int) sender {
	pid, uid, ok := sh.rcv.Sender(i)
	return sender{uid: uid, self: ok && pid == sh.srv.self, known: ok}
}

// from takes the datagrams first to end-1, which name has sent.
func (sh *shared) from(name []byte, from sender, first, end int) {
	s := sh.srv
	tells := s.opts.Trust.senders()
	if tells && !from.known { // it came before the socket was set up
		s.refused.add(early, end-first)
		return
	}
	if from.self { // by a socket that a client has handed over and then connected to this one
		s.refused.bad(name, loop, end-first)
		return
	}
	c := sh.last
	if c == nil || c.ended.Load() || c.path != string(name) {
		if c = sh.find(name, from, end-first); c == nil {
			return
		}
		sh.last = c
	}
	if data, _ := sh.rcv.Msg(first); tells && !from.is(c.uid) || bytes.Equal(data, hello) {
		if c = sh.replaced(c, name, from, end-first); c == nil {
			return
		}
	}
	sh.at = c
	faults.In("dgram.read", name)
	c.take(sh.rcv, first, end)
	sh.at = nil
}

// replaced looks again at the address of c, of which n datagrams have come that begin with a hello, or that another user than its
// owner has sent: the path may have been bound anew after c was gone. It returns the client of now, or nil.
func (sh *shared) replaced(c *client, name []byte, from sender, n int) *client {
	if c.Check(); c.ended.Load() {
		if c = sh.find(name, from, n); c == nil {
			return nil
		}
	}
	if !from.is(c.uid) {
		sh.srv.refused.forged(c.path, from, c.uid, n)
		return nil
	}
	sh.last = c
	return c
}

// is reports whether the sender may speak for a socket of the owner uid. Root may do anything.
func (f sender) is(uid uint32) bool { return f.uid == uid || f.uid == 0 }

// find looks a client up, or makes one. It is nil when the address is not trusted, after n datagrams were counted.
func (sh *shared) find(name []byte, from sender, n int) *client {
	s := sh.srv
	s.mu.Lock()
	c := s.clients[string(name)]
	s.mu.Unlock()
	if c != nil {
		return c
	}
	if r := classify(name); r != "" {
		s.refused.bad(name, r, n)
		return nil
	}
	now := time.Now()
	if s.refused.recently(name, from.uid, now, n) {
		return nil
	}
	if s.look.resting(now) {
		s.refused.add(slow, n)
		return nil
	}
	c, err := s.admit(string(name), from, sh)
	if err != nil {
		s.refused.failed(string(name), from.uid, err, now, n)
		return nil
	}
	return c
}

// admit makes a client of an address that is new, or returns the one that somebody else has made of it meanwhile.
func (s *Server) admit(path string, from sender, by *shared) (*client, error) {
	trust := s.opts.Trust
	t, err := s.look.check(trust, path)
	if err != nil {
		return nil, err
	}
	if trust.senders() && !from.is(t.uid) {
		t.close()
		return nil, forgedBy(path, from, t.uid)
	}
	c, err := newClient(by, t)
	if err != nil {
		t.close()
		return nil, unreachable(path, err)
	}
	s.mu.Lock()
	if s.closed || s.stopping.Load() {
		s.mu.Unlock()
		_ = c.Close()
		return nil, errClosed
	}
	// The reader and Invite may both find that there is none.
	if there := s.clients[path]; there != nil && !there.ended.Load() {
		s.mu.Unlock()
		_ = c.Close()
		return there, nil
	}
	s.clients[path] = c
	s.mu.Unlock()
	if err = s.opts.Serve(c, c.path, c.uid); err != nil {
		c.end(err)
		_ = c.Close()
		return nil, err
	}
	c.pipe.settled()
	return c, nil
}

var errClosed = errors.New("the daemon stops")
