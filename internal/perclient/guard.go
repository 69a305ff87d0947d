// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// A Guard stands between a client and its port and decides what the client may send. It belongs to one session and outlives
// the session's ports.
type Guard interface {
	// Filter calls pass with the frames of b that the client may send, in order and before it returns, in as few batches as
	// it takes. One goroutine at a time calls it.
	Filter(b frame.Batch, pass func(frame.Batch))
	// ToClient is shown what the network delivers, before the client is. It may be called from several goroutines.
	ToClient(b frame.Batch)
	// Drops are keys and values for the log: the frames that Filter kept back, by reason, those that are not zero.
	Drops() []any
	// Close tells that the client has gone. Only Drops is called after it.
	Close()
}

// guardSink shows what goes to the client to its guard.
type guardSink struct {
	frame.Sink
	guard Guard
}

// Deliver implements frame.Sink.
func (s *guardSink) Deliver(b frame.Batch) {
	s.guard.ToClient(b)
	s.Sink.Deliver(b)
}

// guardPort sends what the client's guard lets through.
type guardPort struct {
	vnet.Port
	guard Guard
	pass  func(frame.Batch) // Port.Send, kept because making it allocates
}

// Send implements vnet.Port.
func (p *guardPort) Send(b frame.Batch) { p.guard.Filter(b, p.pass) }

// sink is where the network delivers to. The keeper calls it, for the first time before there is a port.
func (c *Session) sink() frame.Sink {
	c.makeGuard()
	if c.guard == nil {
		return &eyeSink{c.link, c}
	}
	return &guardSink{Sink: &eyeSink{c.link, c}, guard: c.guard}
}

// makeGuard makes the client's guard, unless it has one or there is none.
func (c *Session) makeGuard() {
	if c.guard != nil || c.srv.opts.Guard == nil {
		return
	}
	g := c.srv.opts.Guard(c.id, c.client, c.log)
	c.telling.Lock()
	c.guard = g
	c.telling.Unlock()
}

// guarded is p behind the client's guard, if it has one.
func (c *Session) guarded(p vnet.Port) vnet.Port {
	if c.guard == nil {
		return p
	}
	return &guardPort{Port: p, guard: c.guard, pass: p.Send}
}

// guardDrops are the guard's, for the summary.
func (c *Session) guardDrops() []any {
	if c.guard == nil {
		return nil
	}
	return c.guard.Drops()
}

// closeGuard is called once the session's port and its reader have ended. A client that was restored and left before it had a port
// has never had a guard in this process: what is kept for it is free now, so that its guest has its own address when it is back.
func (c *Session) closeGuard() {
	if c.restored {
		c.makeGuard()
	}
	if c.guard != nil {
		c.guard.Close()
	}
}

// giveUpGuard is closeGuard for a session that panicked, perhaps in its guard.
func (c *Session) giveUpGuard() {
	defer func() {
		if r := recover(); r != nil {
			_ = c.panicked("giving up what the guard holds", r)
		}
	}()
	c.closeGuard()
}
