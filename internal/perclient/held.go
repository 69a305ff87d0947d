// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// maxHeld is how much of a client's input is kept while its port is starting, in bytes of wire form.
	maxHeld = 256 << 10

	// lastTries and lastPause are how often and at what distance it is looked whether what a client sent before it left has been
	// sent on. It is counted and not timed: a daemon that stood still looks as often as one that did not.
	lastTries = 250
	lastPause = time.Millisecond

	// maxLast is how many clients that have left are waited for at once: one that comes and goes must not fill the daemon.
	maxLast = 16
)

// want has the keeper start the port.
func (c *Session) want() { c.wakeOne.Do(func() { close(c.wake) }) }

// hold keeps b until the port has started.
func (c *Session) hold(b frame.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if send := c.send.Load(); send != nil { // it started meanwhile, and what was held is sent
		(*send)(b)
		return
	}
	c.want()
	it := b.Iter()
	for it.Next() && len(c.held)+it.End() <= maxHeld {
		c.heldN++
	}
	kept := it.Offset() // of the first frame that is not kept, or the end
	c.held = append(c.held, b.Bytes()[:kept]...)
	for ok := kept < len(b.Bytes()); ok; ok = it.Next() {
		c.dropHeld.Add(1)
	}
}

// lastWords waits for a moment, once the client has left, until what it sent is on the network: its port may only be starting,
// and socket_vmnet, whose network always runs, loses nothing of a client that sends and leaves. What is left is counted.
func (c *Session) lastWords(err error) {
	if left(err) && c.holds() {
		select {
		case c.srv.last <- struct{}{}:
			for i := 0; i < lastTries && c.holds() && c.phase.failed.Load() == nil && !c.srv.standsStill(); i++ {
				time.Sleep(lastPause)
			}
			<-c.srv.last
		default:
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.send.Load() == nil {
		c.dropHeld.Add(uint64(c.heldN))
		c.held, c.heldN = nil, 0
	}
}

// holds reports whether frames wait for the port.
func (c *Session) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heldN > 0
}
