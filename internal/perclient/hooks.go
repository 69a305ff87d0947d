// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/watch"
)

// A tap sees what clients send and what the network delivers to them, before the clients' links take or drop it. It is called on
// the way of the frames, from several goroutines: it must not wait, keep b or write to it.
type tap interface {
	FromClient(id uint64, b frame.Batch)
	ToClient(id uint64, b frame.Batch)
}

// An observer is told what the ARP and DHCP of guests say. It is called on the way of the frames and must not wait; a guest
// decides how often.
type observer interface {
	// Seen: an ARP or DHCP frame of the client, or a DHCP answer to it, has been looked at, and s is what is known now.
	Seen(id uint64, s watch.Snapshot)
	// Gone: the client has left. Nothing is told of it any more.
	Gone(id uint64)
}

// A Guard stands between a client and its port and decides what the client may send. It belongs to one session and outlives
// the session's ports.
type Guard interface {
	// Filter calls pass with the frames of b that the client may send, in order and before it returns, in as few batches as
	// it takes. One goroutine at a time calls it.
	Filter(b frame.Batch, pass func(frame.Batch))
	// ToClient is shown what the network delivers, before the client is. It may be called from several goroutines.
	ToClient(b frame.Batch)
	// Drops is how many frames Filter kept back, and keys and values for the log: the sum and each reason that is not zero.
	Drops() (sum uint64, args []any)
	// Save is what Options.Guard of the process's next image makes a guard of that goes on. Nothing else is called meanwhile; this one
	// goes on if there is no next image.
	Save() []byte
	// Close tells that the client has gone. Only Drops is called after it.
	Close()
}

// SetTap shows all frames of all clients to t from now on; nil ends that. What is under way may still reach the former one.
func (s *Server) SetTap(t tap) {
	if t == nil {
		s.tap.Store(nil)
	} else {
		s.tap.Store(&t)
	}
}

// Deliver implements frame.Sink: the network delivers to the client by it.
func (c *Session) Deliver(b frame.Batch) {
	defer c.caught("delivering to the client", nil) // the caller serves another one
	if c.guard != nil {
		c.guard.ToClient(b)
	}
	if t := c.srv.tap.Load(); t != nil {
		(*t).ToClient(c.id, b)
	}
	if c.watch.Waiting() {
		c.lookForAnswers(b)
	}
	c.link.Deliver(b)
}

// MaxFrame implements frame.Sink.
func (c *Session) MaxFrame() int { return c.link.MaxFrame() }

// Full implements frame.Bounded.
func (c *Session) Full() bool { return c.link.Full() }

// behind is a port's Hold: it is called by the reader, or by the keeper, before it lets the reader send.
func (c *Session) behind(to frame.Bounded) {
	if c.send.Load() != nil {
		c.link.Hold(to)
	}
}

// lookForAnswers shows the watch what the network says to a guest that waits for its DHCP server.
func (c *Session) lookForAnswers(b frame.Batch) {
	it := b.Iter() // outside of the loop, which would copy it for each frame
	for it.Next() {
		f := it.Frame()
		if !watch.Interesting(f) {
			continue
		}
		if c.watch.ToClient(f) {
			c.news.Store(true) // its reader logs it, with what it says next: the sender of this frame must not wait
		}
		c.observed()
	}
}

// Frames implements link.Handler.
func (c *Session) Frames(b frame.Batch) {
	faults.In("perclient.frames", b.Bytes())
	c.look(b)
	if c.toStore {
		c.toStore = false
		c.part("storing the client's sockets", c.store)
	}
	if t := c.srv.tap.Load(); t != nil {
		(*t).FromClient(c.id, b)
	}
	if send := c.send.Load(); send != nil {
		(*send)(b)
		return
	}
	c.hold(b)
}

// look shows the client's first frame, its ARP and its DHCP to the watch.
func (c *Session) look(b frame.Batch) {
	it := b.Iter()
	for it.Next() {
		f := it.Frame()
		interesting := watch.Interesting(f)
		if c.seen && !interesting {
			continue
		}
		c.seen = true
		changed := c.watch.FromClient(f)
		if c.news.Swap(false) || changed {
			c.logAddresses()
		}
		if interesting {
			c.observed()
		}
	}
}

// store has copies of the client's descriptors kept. The session does not close them before its parts have ended.
func (c *Session) store() {
	if !sleep(c.ctx, storeDelay) {
		return
	}
	c.stored.Store(true)
	c.telling.Lock()
	v := Detached{ID: c.id, Client: c.client, Began: c.began, Link: link.State{Socket: link.Descriptor{FD: c.link.Fd()}}}
	c.telling.Unlock()
	v.Client.Theirs, v.Client.Identity = link.Descriptor{}, c.identity()
	c.srv.opts.Store(&v)
}

// observed tells the observer what is known.
func (c *Session) observed() {
	if o := c.srv.opts.Observer; o != nil {
		o.Seen(c.id, c.watch.Snapshot())
	}
}

// sender is how frames get to p: by the client's guard, if it has one.
func (c *Session) sender(p network.Port) func(frame.Batch) {
	if c.guard == nil {
		return p.Send
	}
	pass := p.Send // kept because making it allocates
	return func(b frame.Batch) { c.guard.Filter(b, pass) }
}

// guardDrops is what the guard of the client, if any, kept back.
func (c *Session) guardDrops() (sum uint64, args []any) {
	if c.guard == nil {
		return 0, nil
	}
	return c.guard.Drops()
}
