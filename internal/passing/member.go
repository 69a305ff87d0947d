// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"errors"
	"time"

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
	watched  *watched

	// srv.mu guards what follows.
	session session                 // nil while it is made
	owed    bool                    // the client is to be told what came of its request
	told    time.Time               // when it was, by this image
	theirs  int                     // attach: the client's end of the pair, until the client is known to have it; else proto.None
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
	m.watched = s.watch.add(x, m)
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
	m.owed, m.told = false, time.Now()
}

// gone reports whether the other end of m's socket is known to be closed, by one system call. A stream's reader is told of that,
// and takes the last frames first. XNU takes a datagram socket's peer away without waking anybody (unp_drop), so that getpeername
// fails.
func (m *member) gone() bool { return m.request.Transport == proto.Datagram && m.link.Gone() }

// letGo closes the client's end of the pair when the client is known to have it: it has sent a frame, or had keepTime to take the
// answer. It reports whether it did. Until then the end must not be in a message alone: XNU takes a socket for lost of which nothing but a message in a
// queue is left, and shuts it down when any unix socket of the system is freed (unp_gc in bsd/kern/uipc_usrreq.c).
func (m *member) letGo() bool {
	s := m.conn.srv
	s.mu.Lock()
	kept := m.theirs != proto.None && !m.owed
	told := m.told
	s.mu.Unlock()
	if !kept || m.link.Stats().ToNetFrames == 0 && time.Since(told) < s.times.keep {
		return false
	}
	m.closeTheirs()
	return true
}

// closeTheirs closes the client's end of the pair.
func (m *member) closeTheirs() {
	s := m.conn.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.theirs != proto.None {
		_ = unix.Close(m.theirs)
		m.theirs = proto.None
	}
}
