// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
)

// A pause holds up whoever changes what Save saves.
type pause struct {
	on   atomic.Bool
	gate sync.RWMutex // the reader and others hold it, shared, while they work; a paused Server holds it alone

	mu   sync.Mutex
	held bool // gate is the paused Server's

	over atomic.Bool // the reader has not begun again since
}

// settleTime is how long the reader waits for sessions to run after a pause, at most. Of a step not more than settleStep counts:
// while the process had no processor, no session could begin to run either.
const (
	settleTime = 500 * time.Millisecond
	settleStep = 2 * time.Millisecond
)

// settle waits, once after a pause, until the sessions run: what was sent meanwhile may be more than is kept for those that do
// not yet. It is called by the reader.
func (s *Server) settle() {
	if !s.pause.over.Swap(false) {
		return
	}
	s.mu.Lock()
	all := s.list()
	s.mu.Unlock()
	left := settleTime
	for _, c := range all {
		for !c.served() && left > 0 && !s.stopping.Load() && !s.pause.on.Load() {
			began := time.Now()
			time.Sleep(100 * time.Microsecond)
			left -= min(time.Since(began), settleStep)
		}
	}
}

// served reports whether frames of c need not be held, or are of no use any more.
func (c *client) served() bool {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	return c.handler != nil || c.ended.Load()
}

// Pause has nothing read from the shared socket any more, so that datagrams wait there, and no client come or go by what it
// does at its path. It waits for the reader, which may be looking up a client's path, for at most lookTime. It may be called before
// Run.
func (s *Server) Pause() {
	s.pause.mu.Lock()
	defer s.pause.mu.Unlock()
	if s.pause.held || s.stopping.Load() {
		return
	}
	s.pause.on.Store(true)
	s.interrupt(true)
	s.pause.gate.Lock()
	s.pause.held = true
}

// Resume undoes Pause and Save. The links have a Resume of their own.
func (s *Server) Resume() {
	s.pause.mu.Lock()
	defer s.pause.mu.Unlock()
	if !s.pause.held {
		return
	}
	s.pause.held = false
	s.pause.over.Store(true)
	s.pause.on.Store(false)
	if !s.stopping.Load() {
		s.interrupt(false)
	}
	if s.stopping.Load() { // meanwhile
		s.interrupt(true)
	}
	s.pause.gate.Unlock()
	s.wantTurn()
}

// interrupt ends the readers' waits, or lets them wait again.
func (s *Server) interrupt(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.all() {
		sh.interrupt(on)
	}
}

// A halt is the wish that Run returns. The zero halt is none.
type halt struct {
	mu sync.Mutex
	on bool
	ch chan struct{} // closed while it is on; nil before anybody asked
}

// set turns it on or off.
func (h *halt) set(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case on && !h.on:
		if h.ch == nil {
			h.ch = make(chan struct{})
		}
		close(h.ch)
	case !on && h.on:
		h.ch = nil
	}
	h.on = on
}

// wanted is closed when it is turned on.
func (h *halt) wanted() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ch == nil {
		h.ch = make(chan struct{})
	}
	return h.ch
}

// halted waits for the client's end, or reports that Pause was called before. What comes then is held.
func (c *client) halted() bool {
	select {
	case <-c.done:
		return false
	case <-c.halt.wanted():
	}
	c.dispatch.Lock()
	c.handler = nil
	c.dispatch.Unlock()
	return !c.ended.Load()
}

// Pause implements link.Pausable.
func (c *client) Pause() { c.halt.set(true) }

// Resume implements link.Pausable.
func (c *client) Resume() {
	c.halt.set(false)
	c.pipe.thaw()
	c.out.Unpark()
}

// Save implements link.Pausable. In are the frames that came while nobody ran the link.
func (c *client) Save() link.Saved {
	c.pipe.freeze() // wakes the drainer
	c.out.Park()
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	v := link.Saved{FD: -1, In: c.held, Stats: c.Stats()}
	v.Stats.Queued = 0
	return v
}
