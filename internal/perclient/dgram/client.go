// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// maxHeld is how much of a client's input is kept until its session has called Run, in bytes of wire form: a guest whose
// first DHCP message is lost waits for seconds.
const maxHeld = 64 << 10

// A client is one address on the shared socket. It is a link.Link.
//
//	known --Run--> served --it has gone, Shutdown, or the Server's Close--> ended --Run returns--> Close --> closed
//
// Its frames are handed on by the Server's reader, under dispatch, so that Run can wait for it to be out.
type client struct {
	srv  *Server
	path string
	uid  uint32
	out  *link.Outbox
	pipe *pipe

	frames, bytes, runts, longs atomic.Uint64
	early                       atomic.Uint64 // of frames, those that were not kept until Run

	begun  chan struct{} // closed once Run takes what comes
	done   chan struct{} // closed when ended
	ended  atomic.Bool
	endOne sync.Once
	reason error // why, once done is closed

	interrupted  chan struct{} // closed by Interrupt
	interruptOne sync.Once

	// dispatch is held while the handler works.
	dispatch sync.Mutex
	handler  link.Handler // nil before Run and after its end
	held     []byte       // frames in wire form that came before Run
	heldN    int
}

var _ link.Link = (*client)(nil)

// newClient makes the link of a new client, whose datagrams come by the socket by. It owns t unless there is an error.
func newClient(by *shared, t *target) (*client, error) {
	p, err := newPipe(by, t)
	if err != nil {
		return nil, err
	}
	return clientOn(by.srv, p), nil
}

// clientOn makes the link of the client that p leads to.
func clientOn(s *Server, p *pipe) *client {
	c := &client{srv: s, path: p.path, uid: p.uid, pipe: p, begun: make(chan struct{}), done: make(chan struct{}), interrupted: make(chan struct{})}
	c.out = link.NewOutbox(p, s.opts.QueueSize, c.end)
	return c
}

// take hands on the datagrams first to end-1 of r.
func (c *client) take(r *mmsg.Receiver, first, end int) {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	b, runts, long := r.Pack(first, end)
	if runts > 0 {
		c.runts.Add(uint64(runts))
	}
	if long > 0 {
		c.longs.Add(uint64(long))
	}
	if b.Len() == 0 || c.ended.Load() {
		return
	}
	c.frames.Add(uint64(b.Len()))
	c.bytes.Add(uint64(b.DataLen()))
	if c.handler == nil {
		c.hold(b)
		return
	}
	c.handler.Frames(b)
}

// hold keeps b until Run. What is too much is lost: the session has had seconds then.
func (c *client) hold(b frame.Batch) {
	it := b.Iter()
	for it.Next() && len(c.held)+it.End() <= maxHeld {
		c.heldN++
	}
	kept := it.Offset() // of the first frame that is not kept, or the end
	c.held = append(c.held, b.Bytes()[:kept]...)
	for lost := kept < len(b.Bytes()); lost; lost = it.Next() {
		c.early.Add(1)
	}
}

// Run implements link.Link: frames are handed to h by the Server's reader, but those that came before.
func (c *client) Run(h link.Handler) error {
	c.begin(h)
	select {
	case <-c.done:
	case <-c.interrupted:
	}
	c.dispatch.Lock()
	c.handler = nil // what comes from now on is held
	c.dispatch.Unlock()
	if !c.ended.Load() {
		return link.ErrDetached
	}
	<-c.done
	c.out.Stop()
	return c.reason
}

// Interrupt implements link.Link.
func (c *client) Interrupt() { c.interruptOne.Do(func() { close(c.interrupted) }) }

// begin hands on what is held and lets the reader do the rest.
func (c *client) begin(h link.Handler) {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	if c.ended.Load() {
		return
	}
	c.handler = h
	if b := frame.NewBatch(c.held, c.heldN); b.Len() > 0 {
		h.Frames(b)
	}
	c.held, c.heldN = nil, 0
	close(c.begun)
}

// end makes Run return reason. The first one counts. It neither blocks nor calls the Outbox, which calls it.
func (c *client) end(reason error) {
	c.endOne.Do(func() {
		c.reason = reason
		c.ended.Store(true)
		c.srv.forget(c)
		if errors.Is(reason, unix.EPERM) { // it is connected to another socket, and would be a client again with its next frame
			c.srv.refused.remember(c.path, c.uid, refused)
		}
		close(c.done)
	})
}

// Deliver implements frame.Sink.
func (c *client) Deliver(b frame.Batch) { c.out.Deliver(b) }

// MaxFrame implements frame.Sink.
func (c *client) MaxFrame() int { return c.srv.opts.MaxFrame }

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
	c.pipe.stop() // wakes the drainer
	c.out.Stop()
	c.out.Close()
	c.pipe.close(errors.Is(c.reason, link.ErrShutdown))
	return nil
}

// Check ends the link where the client has gone, or cannot be found at its path any more: the system does not tell.
func (c *client) Check() {
	if err := c.pipe.check(); err != nil {
		c.end(err)
	}
}

// Gone implements link.Link. A client is found out by a failed send or by Check.
func (c *client) Gone() bool { return c.ended.Load() || c.pipe.gone() }

// Stats implements link.Link.
func (c *client) Stats() (st link.Stats) {
	c.out.Add(&st)
	st.ToNetFrames, st.ToNetBytes = c.frames.Load(), c.bytes.Load()
	st.DropRunt, st.DropLong, st.DropStarting = c.runts.Load(), c.longs.Load(), c.early.Load()
	return st
}

// Fd implements link.Link: the reply socket's, else the shared socket's.
func (c *client) Fd() int { return c.pipe.fd() }
