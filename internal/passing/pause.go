// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pauseTime is how long Pause waits for requests that have begun to come.
	pauseTime = 500 * time.Millisecond
	// cutTime is how long it then waits for those that it has cut off to be told so.
	cutTime = settleTime + 200*time.Millisecond
)

// errPausing interrupts the wait for an interface, which goes on after the pause.
var errPausing = errors.New("the daemon stands still")

// past is a deadline that wakes whoever waits for a socket.
var past = time.Unix(1, 0)

// A pause is the Server's. Its fields are guarded by the Server's mu.
type pause struct {
	resumed chan struct{}      // not nil while the server is paused; closed by Resume
	busy    map[*conn]struct{} // whose request is being read or answered
	quiet   chan struct{}      // Pause waits for its close: nobody is busy any more
	round   int                // how often it was paused
}

// Pause has nothing begin any more until Resume: a connection of which nothing was read yet is left as it is, and one whose
// client waits for its interface waits on. A request that has begun to come is finished within pauseTime, else answered with
// "stopping"; it is never left half answered. Lifelines and clients that have gone are not heeded meanwhile, but after it.
//
// It is called before sessions and network are paused, so that what is finished can be, and after the accept loops have ended.
func (s *Server) Pause() {
	s.mu.Lock()
	if s.pause.resumed != nil || s.stopping {
		s.mu.Unlock()
		return
	}
	s.pause.round++
	s.pause.resumed = make(chan struct{})
	s.pause.quiet = make(chan struct{})
	quiet := s.pause.quiet
	s.calmed()
	for c := range s.unread {
		_ = c.SetReadDeadline(past)
	}
	for m := range s.members {
		if m.halt != nil {
			m.halt(errPausing)
		}
	}
	s.mu.Unlock()
	if !within(quiet, s.times.pause) {
		s.cutRequests()
		within(quiet, cutTime)
	}
	s.watch.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := range s.members {
		if m.lifeline && !m.owed {
			_ = m.conn.SetReadDeadline(past) // outlive stands, see standing
		}
	}
}

// within reports whether done is closed within d.
func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// cutRequests ends the reading of requests that are not whole.
func (s *Server) cutRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.pause.busy {
		c.cut.Store(true)
		_ = c.SetReadDeadline(past)
	}
}

// Resume undoes Pause: everything goes on where it was.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pause.resumed != nil {
		close(s.pause.resumed)
		s.pause.resumed, s.pause.quiet = nil, nil
	}
}

// paused is closed by Resume; nil: the server is not paused, or it stops.
func (s *Server) paused() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pausedNow()
}

// pausedNow is paused with mu held.
func (s *Server) pausedNow() <-chan struct{} {
	if s.stopping {
		return nil
	}
	return s.pause.resumed
}

// standing waits while the server is paused, at most until done, and reports whether it was paused.
func (s *Server) standing(done <-chan struct{}) bool {
	resumed := s.paused()
	if resumed == nil {
		return false
	}
	select {
	case <-resumed:
	case <-done:
	case <-s.ctx.Done():
		return false
	}
	return true
}

// takes makes c busy, whose request begins to come. It reports false when the server is or was paused since c was armed.
func (s *Server) takes(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pausedNow() != nil || c.round != s.pause.round {
		return false
	}
	s.busy(c)
	return true
}

// busy notes that c is. The caller holds mu.
func (s *Server) busy(c *conn) {
	if s.pause.busy == nil {
		s.pause.busy = map[*conn]struct{}{}
	}
	s.pause.busy[c] = struct{}{}
	delete(s.unread, c)
}

// rests is called when c is busy no more.
func (s *Server) rests(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pause.busy, c)
	s.calmed()
}

// calmed tells Pause if nobody is busy. The caller holds mu.
func (s *Server) calmed() {
	if len(s.pause.busy) == 0 && s.pause.quiet != nil {
		close(s.pause.quiet)
		s.pause.quiet = nil
	}
}

// stand is called by c, which is busy, when it was interrupted for a pause: it waits for the end of that.
func (s *Server) stand(c *conn) {
	s.rests(c)
	s.again(c)
}

// again makes c busy as soon as the server is not paused.
func (s *Server) again(c *conn) {
	for {
		s.mu.Lock()
		resumed := s.pausedNow()
		if resumed == nil {
			s.busy(c)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		select {
		case <-resumed:
		case <-s.ctx.Done():
		}
	}
}

// interruptible has halt called when the server is paused; nil ends that.
func (s *Server) interruptible(m *member, halt context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.halt = halt
	if halt != nil && s.pausedNow() != nil {
		halt(errPausing)
	}
}

// begins waits for the first byte of c's request, and makes c busy. Until then c may be left to the next image. It reports
// false when the connection is of no use.
func (c *conn) begins() bool {
	s := c.srv
	for {
		resumed, err := c.arm()
		if err != nil {
			return false
		}
		if resumed == nil {
			c.awaitInput()
			if s.takes(c) {
				return true
			}
			continue
		}
		select {
		case <-resumed:
		case <-s.ctx.Done():
		}
	}
}

// arm sets the deadline of c's request; not while the server is paused, which has set another one: then it returns what to wait
// for.
func (c *conn) arm() (resumed <-chan struct{}, err error) {
	s := c.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	if resumed = s.pausedNow(); resumed != nil {
		return resumed, nil
	}
	if err := c.SetReadDeadline(c.until); err != nil {
		return nil, err
	}
	if s.ctx.Err() != nil { // meanwhile
		_ = c.SetReadDeadline(past)
	}
	c.round = s.pause.round
	return nil, nil
}

// awaitInput waits until there is something to read, or for c's deadline.
func (c *conn) awaitInput() {
	rc, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}
