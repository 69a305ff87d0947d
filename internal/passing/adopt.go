// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"errors"
	"io"
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// adopt serves a descriptor that a client hands over.
func (s *Server) adopt(c *conn) (rest func()) {
	m, err := proto.ReadMessage(c.UnixConn, proto.MaxLine)
	bare := m.Bare()
	defer m.Close() // also what came before an error
	r := proto.Request{Version: proto.Version, Transport: proto.Datagram}
	if err == nil && !bare {
		r, err = proto.DecodeRequest(m.Line)
	}
	if err == nil && m.FD == proto.None {
		err = &proto.Error{Code: proto.BadDescriptor, Text: "no descriptor came with the first byte"}
	}
	var l link.Link
	var h handed
	if err == nil {
		if h, err = s.examine(m.FD, r.Transport); err == nil {
			m.FD = proto.None // it is h's
			l, err = s.adopted(h, r.Transport, c.peer)
		}
	}
	switch {
	case err != nil && bare:
		if !errors.Is(err, io.EOF) {
			e := c.wire(err)
			s.complain(c, "client refused", "code", string(e.Code), "error", e.Text)
		}
	case err != nil:
		s.refuse(c, err)
	case bare:
		s.serveBare(&member{conn: c, link: l, request: r, handed: h, theirs: proto.None})
	default:
		return s.join(&member{conn: c, link: l, request: r, handed: h, lifeline: r.Wait, theirs: proto.None})
	}
	return nil
}

// adopted makes the link on h, which it takes over from giver.
func (s *Server) adopted(h handed, t proto.Transport, giver peercred.Peer) (link.Link, error) {
	o := link.DatagramOptions{QueueSize: s.opts.QueueSize, Shared: true, As: giverOf(giver)}
	if h.bound == "" {
		return s.newLink(h.fd, t, o)
	}
	uc, err := unixConn(h.fd)
	if err != nil {
		return nil, err
	}
	return newPending(uc, h.bound, o, s), nil
}

// serveBare serves a client that is told nothing and whose connection means nothing.
func (s *Server) serveBare(m *member) {
	if err := s.begin(m); err != nil {
		e := m.conn.wire(err)
		s.complain(m.conn, "client refused", "code", string(e.Code), "error", e.Text)
	}
}

// giverOf is in whose name a daemon of root's acts when p hands something over; nil if in its own.
func giverOf(p peercred.Peer) *link.User {
	if os.Geteuid() != 0 || p.Known && p.UID == 0 {
		return nil
	}
	return &link.User{UID: p.User(), GID: p.Group()}
}
