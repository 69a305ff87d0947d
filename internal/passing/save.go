// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
)

// Saved is a paused Server for another process image. Descriptors are by number.
type Saved struct {
	Sessions []SavedSession `json:"sessions,omitempty"`
	Unread   []SavedConn    `json:"unread,omitempty"` // connections of which nothing was read yet
}

// A SavedConn is a connection.
type SavedConn struct {
	FD   int           `json:"fd"`             // -1: it is closed
	Door string        `json:"door"`           // the socket that it came by: "attach" or "adopt"
	Peer peercred.Peer `json:"peer"`           // as it was when it connected
	Left time.Duration `json:"left,omitempty"` // until its request has to be there
}

// A SavedSession is a client. The descriptor of its socket is Session.Link.FD.
type SavedSession struct {
	Conn     SavedConn `json:"conn"`
	Lifeline bool      `json:"lifeline,omitempty"` // the end of Conn ends the session
	Owed     bool      `json:"owed,omitempty"`     // its interface has not started, and it is to be told when that has
	Theirs   int       `json:"theirs"`             // the client's end of the pair, if the client may not have it yet; -1 for none

	Transport proto.Transport `json:"transport"`
	Bound     []byte          `json:"bound,omitempty"`   // the path of a socket that was not connected when it came, any bytes
	At        *fileID         `json:"at,omitempty"`      // what was at Bound
	Pending   bool            `json:"pending,omitempty"` // nobody has sent to Bound yet

	Session perclient.Saved `json:"session"`
}

// Save is what another image needs to serve the same clients, and notes the descriptors that it needs in o. Pause was called
// before, and every session is paused.
func (s *Server) Save(o *handoff.Out) Saved {
	var v Saved
	s.mu.Lock()
	list := make([]*member, 0, len(s.members))
	for m := range s.members {
		if m.session != nil {
			list = append(list, m)
		}
	}
	for c := range s.unread {
		v.Unread = append(v.Unread, c.save(o))
	}
	s.mu.Unlock()
	for _, m := range list {
		if session, ok := m.session.Save(); ok { // else its client has gone
			v.Sessions = append(v.Sessions, s.saveMember(o, m, session))
		}
	}
	return v
}

func (s *Server) saveMember(o *handoff.Out, m *member, session perclient.Saved) SavedSession {
	o.FD(session.Link.FD)
	s.mu.Lock()
	defer s.mu.Unlock()
	p, _ := m.link.(*pending)
	v := SavedSession{
		Conn: SavedConn{FD: -1, Door: m.conn.door, Peer: m.conn.peer}, Lifeline: m.lifeline, Owed: m.owed, Theirs: o.FD(m.theirs),
		Transport: m.request.Transport, Bound: []byte(m.handed.bound), At: m.watched.at.Load(), Pending: p != nil && p.waits(),
		Session: session,
	}
	if m.lifeline || m.owed {
		v.Conn = m.conn.save(o)
	}
	return v
}

func (c *conn) save(o *handoff.Out) SavedConn {
	v := SavedConn{FD: -1, Door: c.door, Peer: c.peer, Left: time.Until(c.until)}
	if rc, err := c.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { v.FD = o.FD(int(fd)) })
	}
	return v
}

// Restore makes the Server that another process image has saved as v. The clients are served as soon as it returns. One that
// cannot be restored is logged and costs itself only.
func Restore(o Options, in *handoff.In, v Saved) *Server {
	s := NewServer(o)
	s.takeOver(in, v)
	return s
}

func (s *Server) takeOver(in *handoff.In, v Saved) {
	for i := range v.Sessions {
		if err := s.restoreMember(in, &v.Sessions[i]); err != nil {
			s.opts.Log.Warn("a client is lost in the upgrade", "client", v.Sessions[i].Session.ID, "via", v.Sessions[i].Conn.Door, "error", err)
		}
	}
	for _, u := range v.Unread {
		uc, err := in.UnixConn(u.FD)
		if err != nil {
			s.opts.Log.Warn("a connection without a request is lost in the upgrade", "via", u.Door, "error", err)
			continue
		}
		handle := s.attach
		if u.Door == doorAdopt {
			handle = s.adopt
		}
		s.take(&conn{UnixConn: uc, srv: s, handle: handle, until: time.Now().Add(min(u.Left, s.times.request)), door: u.Door, peer: u.Peer})
	}
}

// restoreMember serves a client that another image has served.
func (s *Server) restoreMember(in *handoff.In, v *SavedSession) error {
	m, err := s.restored(in, v)
	if err != nil {
		return err
	}
	if err = s.restoreLink(in, m, v); err == nil {
		err = s.enter(m, func() (session, error) { return s.restore(m.link, s.client(m), v.Session) })
	}
	if err != nil {
		m.closeTheirs()
		if m.conn.UnixConn != nil {
			_ = m.conn.Close()
		}
		return err
	}
	if m.conn.UnixConn != nil {
		s.mu.Lock()
		s.count(m.conn)
		s.mu.Unlock()
	}
	switch {
	case m.owed:
		s.running.Go(func() { s.owing(m) })
	case m.lifeline:
		s.running.Go(func() {
			defer m.conn.end()
			defer s.recovered(m.conn)
			m.outlive()
		})
	}
	return nil
}

// owing goes on with the request of a client that is still to be answered.
func (s *Server) owing(m *member) {
	defer m.conn.end()
	defer s.recovered(m.conn)
	defer m.closeTheirs()
	rest := func() func() {
		s.again(m.conn)
		defer s.rests(m.conn)
		return s.conclude(m)
	}()
	if rest != nil {
		rest()
	}
}

// restored is the member that was saved as v, without its link.
func (s *Server) restored(in *handoff.In, v *SavedSession) (m *member, err error) {
	if v.Transport != proto.Datagram && v.Transport != proto.Stream {
		return nil, fmt.Errorf("restore a client: there is no transport %q", v.Transport)
	}
	c := &conn{srv: s, door: v.Conn.Door, peer: v.Conn.Peer}
	m = &member{
		conn: c, lifeline: v.Lifeline, owed: v.Owed, theirs: proto.None,
		request: proto.Request{Version: proto.Version, Transport: v.Transport}, // the session knows the rest of it
		handed:  handed{bound: string(v.Bound), at: v.At},
	}
	if v.Lifeline || v.Owed {
		if c.UnixConn, err = in.UnixConn(v.Conn.FD); err != nil {
			return nil, fmt.Errorf("restore a client's connection: %w", err)
		}
	}
	if v.Owed {
		c.calm = context.AfterFunc(s.ctx, func() { _ = c.SetReadDeadline(past) })
	}
	if m.told = time.Now(); c.UnixConn != nil && v.Theirs >= 0 {
		if m.theirs, err = takeFD(in, v.Theirs); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("restore a client's descriptor: %w", err)
		}
	}
	return m, nil
}

// restoreLink makes m's link.
func (s *Server) restoreLink(in *handoff.In, m *member, v *SavedSession) (err error) {
	uc, err := in.UnixConn(v.Session.Link.FD)
	if err != nil {
		return fmt.Errorf("restore a client's socket: %w", err)
	}
	o := link.DatagramOptions{QueueSize: s.opts.QueueSize}
	if v.Conn.Door == doorAdopt {
		o.Shared, o.As = true, giverOf(v.Conn.Peer)
	}
	switch {
	case v.Pending:
		p := newPending(uc, m.handed.bound, o, s)
		p.early.Store(v.Session.Link.Stats.DropClosed)
		m.link = p
	case v.Transport == proto.Stream:
		m.link, err = link.RestoreStream(uc, link.StreamOptions{QueueSize: o.QueueSize, Shared: o.Shared}, v.Session.Link)
	default:
		m.link, err = link.RestoreDatagram(uc, o, v.Session.Link)
	}
	if err != nil {
		_ = uc.Close()
	}
	return err
}

// takeFD takes a descriptor over, whose number changes.
func takeFD(in *handoff.In, fd int) (int, error) {
	f, err := in.File(fd)
	if err != nil {
		return proto.None, err
	}
	defer func() { _ = f.Close() }() // the result is a duplicate
	rc, err := f.SyscallConn()
	if err != nil {
		return proto.None, err
	}
	n := proto.None
	cerr := rc.Control(func(fd uintptr) { n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	return n, errors.Join(cerr, err)
}
