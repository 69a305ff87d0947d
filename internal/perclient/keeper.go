// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// keep starts the session's port once the client sends something or has been there for startDelay, starts it again when it
// dies, and closes it at the end. Starting may take long and may fail; the client stays connected meanwhile.
func (c *Session) keep() {
	defer c.tried(network.PortInfo{}, ErrGone)
	ctx := c.ctx
	if !c.wanted(ctx) {
		return
	}
	c.phase.started.Store(true)
	for attempt := 0; ; {
		p, err := c.start(ctx)
		if err == nil {
			attempt = 0
			if ctx.Err() == nil {
				c.tried(p.Info(), nil)
			}
			err = c.use(ctx, p)
		}
		if ctx.Err() != nil {
			return
		}
		c.phase.failed.Store(&err)
		c.tried(network.PortInfo{}, err)
		if errors.Is(err, network.ErrClosed) {
			c.shutdown(link.DrainStop)
			return
		}
		delay := retryDelays[min(attempt, len(retryDelays)-1)]
		attempt++
		c.log.Warn("the client has no network; trying again", "error", err, "in", delay)
		if !sleep(ctx, delay) {
			return
		}
	}
}

// wanted waits until the port is wanted, or returns false when the session ends before.
func (c *Session) wanted(ctx context.Context) bool {
	t := time.NewTimer(c.srv.startDelay)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-c.wake:
	case <-t.C:
		// On a busy machine the reader may not have come round to see a client that left at once.
		return !c.link.Gone()
	}
	return ctx.Err() == nil
}

// start attaches a port, as soon as no more than maxStarts are at it.
func (c *Session) start(ctx context.Context) (network.Port, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case c.srv.starts <- struct{}{}:
	}
	defer func() { <-c.srv.starts }()
	faults.Point("perclient.keep")
	o := network.PortOptions{Name: c.name, Session: c.id, ID: c.identity(), InterfaceID: c.client.InterfaceID, MACs: c.learned, Hold: c.behind}
	n := c.srv.now()
	p, err := n.Attach(ctx, o, c)
	for range idTries { // it may be the same client's former session that has the identity, and that session is ending
		if !errors.Is(err, network.ErrIDInUse) || !sleep(ctx, idPause) {
			break
		}
		p, err = n.Attach(ctx, o, c)
	}
	if err != nil {
		return nil, fmt.Errorf("start a port: %w", err)
	}
	return p, nil
}

// identity is what the client says of itself, the address of its guest or its name, else the address in its first frame: the
// same guest has it again when it comes back. It is empty when the client was silent so far. Nothing keeps two clients from
// naming the same one.
func (c *Session) identity() string {
	if c.client.Identity != "" {
		return c.client.Identity
	}
	if c.client.MAC != nil {
		return c.client.MAC.String()
	}
	if c.client.Name != "" {
		return "name " + c.client.Name
	}
	if m := c.watch.Snapshot().MAC; m != nil {
		return m.String()
	}
	return ""
}

// use sends what was held, lets the reader send to p, and closes p when it died or ctx ends. The error tells why
// the port died.
func (c *Session) use(ctx context.Context, p network.Port) error {
	defer func() {
		c.send.Store(nil)
		macs := p.MACs()
		_ = p.Close() // one that cannot be closed in order is gone all the same
		c.settle(p.Stats(), macs)
	}()
	select {
	case <-c.others: // what is held may be for one of them
	case <-ctx.Done():
	}
	c.open(p)
	select {
	case <-ctx.Done():
		return nil
	case <-p.Done():
		return fmt.Errorf("port died: %w", p.Err())
	}
}

// open sends what was held and lets the reader send to p.
func (c *Session) open(p network.Port) {
	c.telling.Lock()
	c.live = p
	c.telling.Unlock()
	send := c.sender(p)
	c.mu.Lock()
	defer c.mu.Unlock() // also when p panics: the reader may be waiting in hold
	if c.heldN > 0 {
		send(frame.NewBatch(c.held, c.heldN))
	}
	c.held, c.heldN = nil, 0
	c.phase.failed.Store(nil)
	c.send.Store(&send)
}

// settle adds what the port counted to what those before it did, once it is closed.
func (c *Session) settle(st network.PortStats, macs []network.MAC) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.live, c.learned = nil, macs
	st.MACs = 0
	c.ports = c.ports.Plus(st)
}

// sleep waits for d, or returns false when ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

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
