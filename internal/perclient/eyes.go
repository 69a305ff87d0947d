// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/watch"
)

// A Tap sees what clients send and what the network delivers to them, before the clients' links take or drop it. It is called on
// the way of the frames, from several goroutines: it must not wait, keep b or write to it.
type Tap interface {
	FromClient(id uint64, b frame.Batch)
	ToClient(id uint64, b frame.Batch)
}

// An Observer is told what the ARP and DHCP of guests say. It is called on the way of the frames and must not wait; a guest
// decides how often.
type Observer interface {
	// Seen: an ARP or DHCP frame of the client, or a DHCP answer to it, has been looked at, and s is what is known now.
	Seen(id uint64, s watch.Snapshot)
	// Gone: the client has left. Nothing is told of it any more.
	Gone(id uint64)
}

// What a session's frames are looked at for. Without any of it that costs one atomic load a batch.
const (
	eyeTap  = 1 << iota // there is a Tap
	eyeDHCP             // the guest waits for an answer of DHCP
)

// SetTap shows all frames of all clients to t from now on; nil ends that. What is under way may still reach the former one.
func (s *Server) SetTap(t Tap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t == nil {
		s.tap.Store(nil)
	} else {
		s.tap.Store(&t)
	}
	for c := range s.sessions {
		c.mark(eyeTap, t != nil)
	}
}

// mark sets or clears one of the eyes.
func (c *Session) mark(eye uint32, on bool) {
	if on {
		c.eyes.Or(eye)
	} else {
		c.eyes.And(^eye)
	}
}

// An eyeSink shows what goes to the client to who wants to see it.
type eyeSink struct {
	frame.Sink
	c *Session
}

// Deliver implements frame.Sink.
func (s *eyeSink) Deliver(b frame.Batch) {
	if e := s.c.eyes.Load(); e != 0 {
		s.c.lookToClient(e, b)
	}
	s.Sink.Deliver(b)
}

// lookToClient shows b, which goes to the client.
func (c *Session) lookToClient(e uint32, b frame.Batch) {
	if t := c.srv.tap.Load(); t != nil {
		(*t).ToClient(c.id, b)
	}
	if e&eyeDHCP == 0 {
		return
	}
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		if !watch.Interesting(f) {
			continue
		}
		if c.watch.ToClient(f) {
			c.news.Store(true) // its reader logs it, with what it says next: whoever sends it this must not wait
		}
		c.observed()
	}
}

// lookFromClient shows b, which the client sent, to the tap.
func (c *Session) lookFromClient(b frame.Batch) {
	if c.eyes.Load()&eyeTap == 0 {
		return
	}
	if t := c.srv.tap.Load(); t != nil {
		(*t).FromClient(c.id, b)
	}
}

// observed tells the observer what is known, and has answers looked for while the guest waits for one.
func (c *Session) observed() {
	c.lookForAnswers()
	if o := c.srv.opts.Observer; o != nil {
		o.Seen(c.id, c.watch.Snapshot())
	}
}

// lookForAnswers opens the eye for DHCP while the guest waits. A question and an answer may come at the same time: whoever marks
// last finds what has become of it.
func (c *Session) lookForAnswers() {
	for {
		waiting := c.watch.Waiting()
		c.mark(eyeDHCP, waiting)
		if c.watch.Waiting() == waiting {
			return
		}
	}
}
