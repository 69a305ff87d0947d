// SPDX-License-Identifier: Apache-2.0

package passfd

import (
	"errors"
	"io"
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

// adopt serves a descriptor that a client hands over.
func (s *Server) adopt(c *conn) {
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
	cl := perclient.Client{Path: h.bound}
	switch {
	case err != nil && bare:
		s.refuseBare(c, err)
	case err != nil:
		s.refuse(c, err)
	case bare: // it is told nothing, and its connection means nothing
		if _, err := s.begin(c, l, r, cl); err != nil {
			s.refuseBare(c, err)
		}
	default:
		s.join(c, l, r, cl, r.Wait)
	}
}

// refuseBare is refuse for a client that waits for no answer.
func (s *Server) refuseBare(c *conn, err error) {
	if !errors.Is(err, io.EOF) {
		e := c.wire(err)
		s.complain(c, "client refused", "code", string(e.Code), "error", e.Text)
	}
}

// adopted makes the link on h, which it takes over from giver.
func (s *Server) adopted(h handed, t proto.Transport, giver peercred.Peer) (link.Link, error) {
	o := link.DatagramOptions{QueueSize: s.opts.QueueSize, Shared: true, As: giverOf(giver)}
	v := link.State{Socket: link.Descriptor{FD: h.fd}}
	if h.bound == "" {
		return linkOf(t, o, v)
	}
	return s.newPending(h.bound, o, v)
}

// giverOf is in whose name a daemon of root's acts when p hands something over; nil if in its own.
func giverOf(p peercred.Peer) *link.User {
	if os.Geteuid() != 0 || p.Known && p.UID == 0 {
		return nil
	}
	return &link.User{UID: p.User(), GID: p.Group()}
}
