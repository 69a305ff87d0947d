// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// errPathGone is why a session ends that waits at a path to which nothing can be sent any more.
var errPathGone = errors.New("the path that the socket was bound to is gone")

// A pending is the link of a client that handed over a bound socket: a link.Datagram that runs once the first datagram
// tells which client it is. Until then frames for it are dropped.
type pending struct {
	*link.Datagram
	srv   *Server
	conn  *net.UnixConn
	path  string // that it is bound to
	giver uint32 // the user that handed it over, 0 for root

	known   atomic.Bool   // the client is, and conn is connected to it
	early   atomic.Uint64 // frames for the client before it was known
	looking atomic.Bool   // a goroutine looks at path
	at      atomic.Pointer[link.File]
	lost    atomic.Bool // path leads elsewhere
}

var _ link.Link = (*pending)(nil)

// newPending makes the link of v, whose socket is bound to path and which it takes over.
func (s *Server) newPending(path string, o link.DatagramOptions, v link.State) (*pending, error) {
	conn, err := v.Socket.Conn()
	if err != nil {
		return nil, err
	}
	v.Socket = link.Holding(conn)
	d, err := link.AttachDatagram(o, v)
	if err != nil {
		return nil, err
	}
	p := &pending{Datagram: d, srv: s, conn: conn, path: path}
	if o.As != nil {
		p.giver = o.As.UID
	}
	p.at.Store(v.At)
	return p, nil
}

// Run waits for the first sender and is then the Datagram's, which ends the wait by the socket's deadline, and tells why.
func (p *pending) Run(h link.Handler) error {
	client, err := dgram.FirstSender(p.conn, p.srv.opts.Trust, p.giver)
	switch {
	case err == nil:
		p.srv.opts.Log.Info("first sender found", "bound", p.path, "path", client)
		p.known.Store(true)
	case p.lost.Load():
		return errPathGone
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("wait for the first sender: %w", err)
	}
	return p.Datagram.Run(h)
}

// Check implements perclient's checker: it ends the link where the client has gone, or where nothing can reach it at its path any more.
// The path is the client's choice, and its file system may not answer: the look has a goroutine of its own.
func (p *pending) Check() {
	if p.known.Load() {
		p.Datagram.Check()
	} else if p.looking.CompareAndSwap(false, true) {
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
		if !p.known.Load() {
			p.lost.Store(true)
			p.Shutdown(link.DrainOne)
		}
	}
}

// Detach implements link.Link.
func (p *pending) Detach() link.State {
	v := p.Datagram.Detach()
	v.Stats.DropClosed += p.early.Load()
	v.Waits, v.At = !p.known.Load(), p.at.Load()
	return v
}

// Deliver implements frame.Sink.
func (p *pending) Deliver(b frame.Batch) {
	if p.known.Load() {
		p.Datagram.Deliver(b)
	} else {
		p.early.Add(uint64(b.Len()))
	}
}

// Gone implements link.Link.
func (p *pending) Gone() bool { return p.known.Load() && p.Datagram.Gone() }

// Stats implements link.Link.
func (p *pending) Stats() link.Stats {
	st := p.Datagram.Stats()
	st.DropClosed += p.early.Load()
	return st
}
