// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A member is a client that is served, or about to be.
type member struct {
	conn     *conn // by which it came; open while it is its lifeline, or an answer is owed
	link     link.Link
	request  proto.Request
	handed   handed
	lifeline bool // the end of conn ends the session
	theirs   int  // attach: the client's end of the pair, until it has that; else proto.None
	watched  *watched

	// srv.mu guards what follows.
	session session                 // nil while it is made
	owed    bool                    // the client is to be told what came of its request
	halt    context.CancelCauseFunc // interrupts the wait for its interface, not nil meanwhile
}

// begin makes a session for m. It takes m's link over.
func (s *Server) begin(m *member) error {
	return s.enter(m, func() (session, error) { return s.serve(m.link, s.client(m)) })
}

// enter makes m one of the members, with the session that serve makes for its link, which it takes over.
func (s *Server) enter(m *member, serve func() (session, error)) (err error) {
	var x session
	defer func() {
		if x == nil { // nobody serves the link
			s.forget(m)
			if errors.Is(err, perclient.ErrStopping) {
				m.link.Shutdown(link.DrainStop) // the next daemon may
			}
			_ = m.link.Close()
		}
	}()
	s.mu.Lock()
	s.members[m] = struct{}{}
	s.mu.Unlock()
	if x, err = serve(); err != nil {
		return err
	}
	s.mu.Lock()
	m.session = x
	s.mu.Unlock()
	m.watched = s.watch.add(x, m.handed)
	return nil
}

// client describes m. Its session's end ends its membership.
func (s *Server) client(m *member) perclient.Client {
	c, r := m.conn, m.request
	log := append([]any{"via", c.door, "transport", string(r.Transport)}, c.peer.Args()...)
	transport := status.PassedDatagram
	if r.Transport == proto.Stream {
		transport = status.PassedStream
	}
	return perclient.Client{
		Transport: transport, Path: m.handed.bound, Name: r.Name, Log: log, Peer: c.peer, MAC: r.MAC, InterfaceID: r.InterfaceID, Start: true,
		Ended: func() {
			s.forget(m)
			if c.UnixConn != nil {
				_ = c.SetReadDeadline(past) // wakes outlive
			}
		},
	}
}

// forget takes m out of the members.
func (s *Server) forget(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, m)
}

// answered notes that nothing is owed to m any more.
func (s *Server) answered(m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.owed = false
}

// closeTheirs closes the client's end of the pair, which the client may have now.
func (m *member) closeTheirs() {
	if m.theirs != proto.None {
		_ = unix.Close(m.theirs)
		m.theirs = proto.None
	}
}
