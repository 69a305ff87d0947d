// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// errPathGone is why a session ends that waits at a path to which nothing can be sent any more.
var errPathGone = errors.New("the path that the socket was bound to is gone")

// A pending is the link of a client that handed over a bound socket: it becomes a link.Datagram once the first datagram
// tells who the client is. Until then frames for it are dropped.
//
//	waiting --first sender--> serving, all by the inner link --> closed
type pending struct {
	conn  *net.UnixConn
	fd    int
	path  string // that it is bound to
	opts  link.DatagramOptions
	trust dgram.Trust
	found func(path string) // told who the client is

	ctx    context.Context // until the wait is to end, with why as its cause
	cancel context.CancelCauseFunc
	early  atomic.Uint64 // frames for the client before it was known

	looking atomic.Bool // a goroutine looks at path
	at      atomic.Pointer[link.File]

	mu    sync.Mutex
	sched *link.DrainSchedule // that of Shutdown
	inner atomic.Pointer[link.Datagram]
}

var _ link.Link = (*pending)(nil)

// newPending takes over conn, which is bound to path and which the user o.As has handed over, nil for root.
func newPending(conn *net.UnixConn, path string, o link.DatagramOptions, s *Server) *pending {
	p := &pending{
		conn: conn, path: path, opts: o, trust: s.opts.Trust, fd: link.Holding(conn).FD,
		found: func(client string) {
			s.opts.Log.Info("first sender found", "bound", path, "path", client)
		},
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

// Run waits for the first sender and is then the inner link's.
func (p *pending) Run(h link.Handler) error {
	var giver uint32
	if p.opts.As != nil {
		giver = p.opts.As.UID
	}
	client, err := dgram.FirstSender(p.ctx, p.conn, p.trust, giver)
	if err != nil {
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		return fmt.Errorf("wait for the first sender: %w", err)
	}
	p.found(client)
	d, err := link.NewDatagram(p.conn, p.opts)
	if err != nil {
		return fmt.Errorf("serve the first sender: %w", err)
	}
	p.mu.Lock()
	p.inner.Store(d)
	switch cause := context.Cause(p.ctx); { // meanwhile
	case p.sched != nil:
		d.Shutdown(*p.sched)
	case errors.Is(cause, link.ErrDetached):
		d.Interrupt()
	case cause != nil:
		d.Shutdown(link.DrainOne)
	}
	p.mu.Unlock()
	return d.Run(h)
}

// stop ends the wait with cause, or calls f with the inner link.
func (p *pending) stop(cause error, f func(*link.Datagram)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel(cause)
	if d := p.inner.Load(); d != nil {
		f(d)
	}
}

// Interrupt implements link.Link.
func (p *pending) Interrupt() { p.stop(link.ErrDetached, (*link.Datagram).Interrupt) }

// Shutdown ends the wait, or the inner link.
func (p *pending) Shutdown(sched link.DrainSchedule) {
	p.mu.Lock()
	if p.sched == nil {
		p.sched = &sched
	}
	p.mu.Unlock()
	p.stop(link.ErrShutdown, func(d *link.Datagram) { d.Shutdown(sched) })
}

// Check implements perclient's checker: it ends the link where the client has gone, or where nothing can reach it at its path any more.
// The path is the client's choice, and its file system may not answer: the look has a goroutine of its own.
func (p *pending) Check() {
	if d := p.inner.Load(); d != nil {
		d.Check()
		return
	}
	if p.looking.CompareAndSwap(false, true) {
		go p.look()
	}
}

func (p *pending) look() {
	defer p.looking.Store(false)
	var st unix.Stat_t
	err := unix.Lstat(p.path, &st)
	is := link.File{UID: st.Uid, Dev: uint64(st.Dev), Ino: st.Ino}
	switch at := p.at.Load(); {
	case at == nil && err == nil:
		p.at.Store(&is)
	case at == nil: // never seen
	case errors.Is(err, unix.ENOENT), err == nil && (is.Dev != at.Dev || is.Ino != at.Ino):
		p.stop(errPathGone, func(*link.Datagram) {})
	}
}

// Detach implements link.Link.
func (p *pending) Detach() (v link.State) {
	if d := p.inner.Load(); d != nil {
		v = d.Detach()
	} else {
		_ = p.conn.SetDeadline(time.Time{}) // the end of the wait has set one
		v = link.State{Socket: link.Holding(p.conn), Waits: true, At: p.at.Load()}
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

// Close implements link.Link.
func (p *pending) Close() error {
	p.cancel(link.ErrShutdown)
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
