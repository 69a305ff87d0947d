// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"io"
	"time"
)

const (
	// maxLooks is how many new addresses are looked at at once: a client may name a path in a file system that does not answer.
	maxLooks = 64

	// lookTime is how long Halt waits for those that are looked at.
	lookTime = 500 * time.Millisecond
)

var errClosed = errors.New("the daemon stops, or another client has the address by now")

// itself is the sender that a client has who was invited: no datagram that is read comes from it.
var itself = sender{known: true, self: true}

// newcomer makes a client of an address that is new. What it sends is held while a goroutine looks at the address, so that no other
// client waits for that.
func (s *Server) newcomer(path string, from sender, by *shared) *client {
	c := newClient(s, path, from)
	s.mu.Lock()
	s.coming[path] = c
	s.mu.Unlock()
	s.looks.Add(1)
	go func() {
		defer s.looks.Add(-1)
		if err := s.admit(c, by); err != nil {
			s.refused.failed(path, from.uid, err, c.came())
		}
	}()
	return c
}

// Invite serves the client at path before it says a word: it may have been one of an earlier process, and its guest may have
// nothing to say for long. The path is checked as if a datagram had come. One that has connected its socket to the earlier
// process's is none any more, and an address that has a client already is left alone, as is one that speaks meanwhile. It may be called before Run, and may take as
// long as a look at the path does.
func (s *Server) Invite(path string) error {
	c := newClient(s, path, itself)
	s.mu.Lock()
	if s.clients[path] != nil || s.coming[path] != nil {
		s.mu.Unlock()
		return nil
	}
	s.coming[path] = c
	var by *shared
	if len(s.sockets) > 0 && s.sockets[0].found { // the client may be connected to any of them, which the first frame for it tells
		by = s.sockets[0]
	}
	s.mu.Unlock()
	return s.admit(c, by)
}

// admit has c served, whose datagrams come by the socket by, unless its address is not trusted; then it ends.
func (s *Server) admit(c *client, by *shared) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.panicked("serving a new datagram client", r)
		}
		if err != nil {
			c.end(err)
			_ = c.Close()
		}
	}()
	t, err := s.opts.Trust.check(c.path)
	switch {
	case err != nil:
		return err
	case !c.from.is(t.uid):
		t.pin.Close()
		return forgedBy(c.path, c.from, t.uid)
	}
	if err := c.pipe.open(t, by); err != nil {
		t.pin.Close()
		return unreachable(c.path, err)
	}
	if err := s.enter(c, t.uid); err != nil {
		return err
	}
	if err := s.opts.Serve(c, c.path, c.uid); err != nil {
		return err
	}
	s.wantTurn() // the socket that it is answered by may be its own from now on
	return nil
}

// enter makes c the client of its address, in place of one that has gone: the path is another user's now.
func (s *Server) enter(c *client, uid uint32) error {
	s.mu.Lock()
	if s.closed || s.stopping.Load() || s.coming[c.path] != c {
		s.mu.Unlock()
		return errClosed
	}
	last := s.clients[c.path]
	c.uid = uid
	s.clients[c.path] = c
	delete(s.coming, c.path)
	s.mu.Unlock()
	if last != nil {
		last.end(io.EOF)
	}
	return nil
}
