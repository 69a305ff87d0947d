// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// maxHeld is how much of a client's input is kept until its session has called Run, in bytes of wire form: a guest whose
// first DHCP message is lost waits for seconds, and after an upgrade as much may wait as the client's socket holds.
const maxHeld = 1 << 20

// A client is one address on the shared socket. It is a link.Link.
//
//	coming --admit--> known --Run--> served --it has gone, Shutdown, or the Server's Close--> ended --Run returns--> Close --> closed
//
// Its frames are handed on by the Server's readers, under dispatch, so that Run can wait for them to be out.
type client struct {
	srv  *Server
	path string
	from sender // whose first datagram came
	uid  uint32 // of the socket's owner, once it is known
	out  *link.Outbox
	pipe *pipe

	ctx     context.Context // until it ends, or Interrupt: the cause tells
	cancel  context.CancelCauseFunc
	looking atomic.Bool // a goroutine looks whether it is there

	// dispatch is held while the handler works.
	dispatch sync.Mutex
	handler  link.Handler // nil before Run and after its end
	held     []byte       // frames in wire form that came before Run
	heldN    int
}

var _ link.Link = (*client)(nil)

func newClient(s *Server, path string, from sender) *client {
	c := &client{srv: s, path: path, from: from, pipe: &pipe{srv: s, path: path}}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.out = link.NewOutbox(c.pipe, s.opts.QueueSize, c.end)
	return c
}

// take hands on the datagrams first to end-1 of r, unless c has ended.
func (c *client) take(r *mmsg.Receiver, first, end int) bool {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	if c.Gone() {
		return false
	}
	b, runts, long := r.Pack(first, end)
	c.out.Came(b, runts, long)
	switch {
	case b.Len() == 0:
	case c.handler == nil:
		c.hold(b)
	default:
		c.handler.Frames(b)
	}
	return true
}

// came is how many datagrams have come, without hellos. None comes any more once c has ended.
func (c *client) came() int {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	st := c.Stats()
	return int(st.ToNetFrames + st.DropRunt + st.DropLong)
}

// hold keeps b until Run. What is too much is lost: the session has had seconds then.
func (c *client) hold(b frame.Batch) {
	fits := b.Within(maxHeld - len(c.held))
	c.held = append(c.held, fits.Bytes()...)
	c.heldN += fits.Len()
	c.out.Dropped(link.Stats{DropStarting: uint64(b.Len() - fits.Len())})
}

// Run implements link.Link: frames are handed to h by the Server's readers, but those that came before.
func (c *client) Run(h link.Handler) error {
	c.handOn(h)
	<-c.ctx.Done()
	c.dispatch.Lock()
	c.handler = nil // what comes from now on is held
	c.dispatch.Unlock()
	if c.Gone() {
		c.out.Stop()
	}
	return context.Cause(c.ctx)
}

// handOn hands on what is held and lets the readers do the rest.
func (c *client) handOn(h link.Handler) {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	if c.Gone() {
		return
	}
	c.handler = h
	if c.heldN > 0 {
		h.Frames(frame.NewBatch(c.held, c.heldN))
	}
	c.held, c.heldN = nil, 0
}

// Interrupt implements link.Link.
func (c *client) Interrupt() { c.cancel(link.ErrDetached) }

// end makes Run return reason. The first one counts. It neither blocks nor calls the Outbox, which calls it.
func (c *client) end(reason error) {
	c.srv.forget(c) // first: what is found there has not ended
	c.cancel(reason)
	if errors.Is(reason, unix.EPERM) && c.from != itself { // it is connected to another socket, and would be a client again with its next frame
		c.srv.refused.remember(c.path, c.from.uid, refused)
	}
}

// Deliver implements frame.Sink.
func (c *client) Deliver(b frame.Batch) { c.out.Deliver(b) }

// MaxFrame implements frame.Sink.
func (c *client) MaxFrame() int { return mmsg.MaxLen }

// Drain implements link.Link. There is nothing to drain: no client waits for its datagrams to be read by a socket that goes.
func (c *client) Drain() {}

// Shutdown implements link.Link. What is queued may still go out until Close.
func (c *client) Shutdown(link.DrainSchedule) {
	c.out.Stop()
	c.end(link.ErrShutdown)
}

// Close implements link.Link.
func (c *client) Close() error {
	c.end(link.ErrShutdown)
	c.out.Stop()
	t, r := c.pipe.release() // wakes the drainer
	c.out.Close()
	if r != nil {
		_ = r.Close()
	}
	if t != nil {
		t.pin.Close()
	}
	return nil
}

// Check ends the link where the client has gone, or cannot be found at its path any more: the system does not tell. The path is the
// client's choice, and its file system may not answer: the look has a goroutine of its own.
func (c *client) Check() {
	t, left := c.pipe.current()
	if t == nil || !c.looking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.looking.Store(false)
		if left || !t.present() {
			c.end(io.EOF)
		}
	}()
}

// Gone implements link.Link. A client is found out by a failed send or by Check.
func (c *client) Gone() bool {
	return c.ctx.Err() != nil && !errors.Is(context.Cause(c.ctx), link.ErrDetached)
}

// Stats implements link.Link.
func (c *client) Stats() link.Stats { return c.out.Stats() }

// Full implements link.Link.
func (c *client) Full() bool { return c.out.Full() }

// Hold implements link.Link: the reader is everybody's, and does not wait.
func (c *client) Hold(frame.Bounded) {}

// Fd implements link.Link: the reply socket's, else the shared socket's.
func (c *client) Fd() int { return c.pipe.fd() }
