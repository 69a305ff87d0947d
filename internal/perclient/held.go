// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

const (
	// maxHeld is how much of a client's input is kept while its port is starting, in bytes of wire form.
	maxHeld = 256 << 10

	// lastTime is how long the session of a client that has left waits for its port to start.
	lastTime = 250 * time.Millisecond
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
	kept := b.Within(maxHeld - len(c.held))
	c.held = append(c.held, kept.Bytes()...)
	c.heldN += kept.Len()
	c.dropHeld.Add(uint64(b.Len() - kept.Len()))
}

// lastWords waits for a moment, once the client has left, for the port that it wanted to start: socket_vmnet, whose network always
// runs, loses nothing of a client that sends and leaves. The keeper sends what is held before it closes the port.
func (c *Session) lastWords(err error) {
	c.mu.Lock()
	holds := c.heldN > 0
	c.mu.Unlock()
	if !left(err) || !holds {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, lastTime)
	defer cancel()
	_, _ = c.Ready(ctx)
}
