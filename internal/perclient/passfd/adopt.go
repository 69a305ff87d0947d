// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// adopt serves a descriptor that a client hands over.
func (s *Server) adopt(c *conn) {
	m, r, err := c.request()
	defer func() { m.Close() }() // also what came before an error
	var bound string
	if err == nil {
		bound, err = s.examine(m.FD, r.Transport)
	}
	if bound != "" { // who has sent already is known before the answer
		if no := dgram.Unserved(m.FD, s.opts.Trust, giverOf(c.peer), s.opts.Refused); no != nil {
			err = &proto.Error{Code: proto.Denied, Text: no.Error()}
		}
	}
	cl := c.client(r, bound)
	var l link.Link
	if err == nil {
		v := link.State{Socket: link.Descriptor{FD: m.FD}, Waits: bound != ""}
		m.FD = proto.None // it is v's
		l, err = s.Link(&perclient.Detached{Client: cl, Link: v})
	}
	switch {
	case err != nil:
		s.refuse(c, err)
	case c.bare: // it is told nothing, and its connection means nothing
		if _, err := s.begin(c, l, cl); err != nil {
			s.refuse(c, err)
		}
	default:
		s.join(c, l, r.Transport, cl, r.Wait)
	}
}

// giverOf is in whose name a daemon of root's acts when p hands something over; nil if in its own.
func giverOf(p hostfs.Peer) *link.User {
	if os.Geteuid() != 0 || p.Known && p.UID == 0 {
		return nil
	}
	return &link.User{UID: p.User(), GID: p.Group()}
}

// badDescriptor says that a descriptor cannot carry frames.
func badDescriptor(format string, args ...any) error {
	return &proto.Error{Code: proto.BadDescriptor, Text: "the descriptor is " + fmt.Sprintf(format, args...)}
}

// examine checks that fd is a socket of transport t that leads to a client, and returns the path that it is bound to if it is not
// connected. Its error is a *proto.Error. The client may have the same socket and change it at any time: what is found here spares it
// mistakes, nothing more depends on it.
func (s *Server) examine(fd int, t proto.Transport) (bound string, err error) {
	local, err := unix.Getsockname(fd)
	name, ok := local.(*unix.SockaddrUnix)
	if err != nil || !ok {
		return "", badDescriptor("no unix socket, and has to be one")
	}
	if is := transportOf(fd); is != t {
		return "", badDescriptor("a unix socket of kind %q, and %q was asked for; say so with \"transport\"", is, t)
	}
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && n != 0 {
		return "", badDescriptor("a socket that listens, and has to be connected")
	}
	remote, err := unix.Getpeername(fd)
	switch {
	case err == nil:
		r, ok := remote.(*unix.SockaddrUnix)
		if ok && slices.Contains(s.opts.Trust.Own, r.Name) || hostfs.PeerOfFD(fd).PID == s.self {
			return "", badDescriptor("connected to this daemon itself: its frames would go round")
		}
		return "", nil
	case !errors.Is(err, unix.ENOTCONN):
		return "", badDescriptor("a unix socket whose other end has gone")
	case t == proto.Stream:
		return "", badDescriptor("a stream socket that is not connected")
	case name.Name == "" || name.Name == "@": // as Linux's unnamed ones are read
		return "", badDescriptor("a datagram socket that is neither connected nor bound: nothing could reach it")
	case slices.Contains(s.opts.Trust.Own, name.Name):
		return "", badDescriptor("bound to the daemon's own path %q", name.Name)
	case !filepath.IsAbs(name.Name): // nothing would tell when the last process that may send to it has gone
		return "", badDescriptor("bound to %q: bind it to an absolute path", name.Name)
	}
	return name.Name, nil
}

// transportOf is the transport that a socket carries. SOCK_SEQPACKET and others are none.
func transportOf(fd int) proto.Transport {
	kind, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE) // 0 is no kind
	switch kind {
	case unix.SOCK_DGRAM:
		return proto.Datagram
	case unix.SOCK_STREAM:
		return proto.Stream
	}
	return proto.Transport(fmt.Sprintf("socket type %d", kind))
}

// errPathGone is why a session ends that waits at a path to which nothing can be sent any more.
var errPathGone = errors.New("the path that the socket was bound to is gone")

// A pending is the link of a client that handed over a bound socket: a link.Datagram that runs once the first datagram
// tells which client it is. Until then frames for it are dropped.
type pending struct {
	*link.Datagram
	srv   *Server
	conn  *net.UnixConn
	path  string     // that it is bound to
	giver *link.User // that handed it over, nil for root

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
	p := &pending{Datagram: d, srv: s, conn: conn, path: path, giver: o.As}
	p.at.Store(v.At)
	return p, nil
}

// Run waits for the first sender and is then the Datagram's, which ends the wait by the socket's deadline, and tells why.
func (p *pending) Run(h link.Handler) error {
	client, err := dgram.FirstSender(p.conn, p.srv.opts.Trust, p.giver, p.srv.opts.Refused)
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
