// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
	"github.com/socket-vmnet2/socket_vmnet2/internal/unixgram"
)

// A pending is the link of a client that handed over a bound socket: it becomes a link.Datagram once the first datagram
// tells who the client is. Until then frames for it are dropped.
//
//	waiting --first sender--> serving, all by the inner link --> closed
//	waiting --Pause--> paused --Resume--> waiting
type pending struct {
	conn  *net.UnixConn
	fd    int
	opts  link.DatagramOptions
	first func(ctx context.Context, conn *net.UnixConn) (path string, err error)
	found func(path string) // told who it is

	ctx    context.Context // until Shutdown
	cancel context.CancelFunc
	early  atomic.Uint64 // frames for the client before it was known

	inner atomic.Pointer[link.Datagram]

	mu     sync.Mutex
	sched  *link.DrainSchedule // that of Shutdown
	paused bool
	halt   context.CancelFunc // interrupts the wait, not nil meanwhile
}

var _ link.Pausable = (*pending)(nil)

// waits reports whether the first sender is not known yet.
func (p *pending) waits() bool { return p.inner.Load() == nil }

// newPending takes over conn, which is bound to path and which the user o.As has handed over, nil for root.
func newPending(conn *net.UnixConn, path string, o link.DatagramOptions, s *Server) *pending {
	var giver uint32
	if o.As != nil {
		giver = o.As.UID
	}
	p := &pending{
		conn: conn,
		opts: o,
		first: func(ctx context.Context, conn *net.UnixConn) (string, error) {
			return unixgram.FirstSender(ctx, conn, s.opts.Trust, giver)
		},
		found: func(client string) {
			s.opts.Log.Info("first sender found", "bound", path, "path", client)
		},
	}
	if rc, err := conn.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { p.fd = int(fd) })
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Run waits for the first sender and is then the inner link's.
func (p *pending) Run(h link.Handler) error {
	d := p.inner.Load()
	if d == nil {
		var err error
		if d, err = p.wait(); err != nil {
			return err
		}
	}
	return d.Run(h)
}

// wait waits for the first sender and makes the inner link.
func (p *pending) wait() (*link.Datagram, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	if !p.interruptible(cancel) {
		return nil, link.ErrPaused
	}
	defer p.interruptible(nil)
	client, err := p.first(ctx, p.conn)
	switch {
	case err == nil:
	case p.ctx.Err() != nil:
		return nil, link.ErrShutdown
	case ctx.Err() != nil:
		return nil, link.ErrPaused
	default:
		return nil, fmt.Errorf("wait for the first sender: %w", err)
	}
	p.found(client)
	d, err := link.NewDatagram(p.conn, p.opts)
	if err != nil {
		return nil, fmt.Errorf("serve the first sender: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inner.Store(d)
	if p.sched != nil { // meanwhile
		d.Shutdown(*p.sched)
	}
	if p.paused {
		d.Pause()
	}
	return d, nil
}

// interruptible has halt called by Pause; nil ends that. It reports false when the link is paused already.
func (p *pending) interruptible(halt context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.halt = halt
	return !p.paused
}

// Pause implements link.Pausable.
func (p *pending) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = true
	if p.halt != nil {
		p.halt()
	}
	if d := p.inner.Load(); d != nil {
		d.Pause()
	}
}

// Resume implements link.Pausable.
func (p *pending) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
	if d := p.inner.Load(); d != nil {
		d.Resume()
	}
}

// Save implements link.Pausable.
func (p *pending) Save() link.Saved {
	v := link.Saved{FD: p.fd}
	if d := p.inner.Load(); d != nil {
		v = d.Save()
	}
	v.Stats.DropClosed += p.early.Load()
	return v
}

// Deliver implements frame.Sink.
func (p *pending) Deliver(b frame.Batch) {
	if d := p.inner.Load(); d != nil {
		d.Deliver(b)
		return
	}
	p.early.Add(uint64(b.Len()))
}

// MaxFrame implements frame.Sink.
func (p *pending) MaxFrame() int { return mmsg.MaxLen }

// Drain implements link.Link.
func (p *pending) Drain() {
	if d := p.inner.Load(); d != nil {
		d.Drain()
	}
}

// Shutdown ends the wait, or the inner link.
func (p *pending) Shutdown(sched link.DrainSchedule) {
	p.mu.Lock()
	if p.sched == nil {
		p.sched = &sched
	}
	d := p.inner.Load()
	p.mu.Unlock()
	p.cancel()
	if d != nil {
		d.Shutdown(sched)
	}
}

// Close implements link.Link.
func (p *pending) Close() error {
	p.cancel()
	if d := p.inner.Load(); d != nil {
		return d.Close()
	}
	return p.conn.Close()
}

// Gone implements link.Link.
func (p *pending) Gone() bool {
	d := p.inner.Load()
	return d != nil && d.Gone()
}

// Stats implements link.Link.
func (p *pending) Stats() (st link.Stats) {
	if d := p.inner.Load(); d != nil {
		st = d.Stats()
	}
	st.DropClosed += p.early.Load()
	return st
}

// Fd implements link.Link.
func (p *pending) Fd() int { return p.fd }
