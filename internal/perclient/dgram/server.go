// SPDX-License-Identifier: Apache-2.0

// Package dgram serves any number of datagram clients on one bound unix socket, told apart by the address that each of
// them bound, one link.Link for each.
//
// There are two kinds of client. One that sends to the shared socket without being connected to it, as QEMU does, is
// answered through a reply socket of its own: a queue, a send buffer and readiness events that no other has. One that has
// connected its socket to the shared one, as vfkit and libkrun do, takes datagrams from the shared socket only (on Linux): that
// one becomes its own, and another one takes its path; see shared.go.
package dgram

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// sharedBufLen is the send and receive buffer asked for on the shared socket, in bytes.
const sharedBufLen = 4 << 20

// Options set up a Server.
type Options struct {
	Conn *net.UnixConn // bound, SOCK_DGRAM; taken over
	// Renew makes another socket like Conn and gives it the path; nil: it cannot be done. Only Linux needs it.
	Renew     func() (*net.UnixConn, error)
	Trust     Trust
	QueueSize int // bytes of one client's queue; 0 = link.DefaultQueueSize
	MaxFrame  int // bytes of the longest frame for a client; 0 = mmsg.MaxLen
	Log       *slog.Logger

	// Serve makes a session for l, whose client bound path and whose socket belongs to uid. The session calls Run and then
	// Close. Serve is called by the reader, so it must not block. An error: the client is not served, and the Server closes l.
	Serve func(l link.Link, path string, uid uint32) error
}

// A Server reads the shared socket and hands each client's frames to its link.
//
//	New or Attach --Run--> running --Halt--> halted --Run--> running
//	any --Close--> closed
type Server struct {
	opts  Options
	self  int           // our process id, which is no client's
	some  chan struct{} // has something when there is a client
	turns chan struct{} // has something when the path may need another socket

	mu      sync.Mutex
	quit    chan struct{}        // closed by Halt; nil: it does not run
	lastID  int                  // of a shared
	cur     *shared              // that has the path
	old     map[*shared]struct{} // that had it, and have clients
	fixed   bool                 // cur stays
	clients map[string]*client   // by the path that they bound
	closed  bool
	running sync.WaitGroup

	stopping atomic.Bool // the readers end
	refused  refusals
	look     looker
}

// New makes a Server, which owns o.Conn from now on unless there is an error. Nothing is read before Run.
func New(o Options) (*Server, error) {
	if o.MaxFrame == 0 {
		o.MaxFrame = mmsg.MaxLen
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		opts: o, self: os.Getpid(), some: make(chan struct{}, 1), turns: make(chan struct{}, 1),
		old: map[*shared]struct{}{}, clients: map[string]*client{},
	}
	s.refused.log = o.Log
	var err error
	if s.cur, err = newShared(s, o.Conn); err != nil {
		return nil, err
	}
	return s, nil
}

// errGiven is why a socket stays the one at its path.
var errGiven = errors.New("the socket was given by the service manager")

// Run begins to serve clients, and returns at once. Nothing is read before the clients that it has are run. It does nothing while the
// Server runs, or when it is closed.
func (s *Server) Run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit != nil || s.closed {
		return
	}
	s.quit = make(chan struct{})
	s.stopping.Store(false)
	quit, sockets, clients := s.quit, s.all(), s.list()
	for _, sh := range sockets {
		sh.interrupt(false)
	}
	s.running.Go(func() {
		for _, c := range clients { // what waits for those that were attached may be more than hold keeps
			select {
			case <-c.begun:
			case <-c.done:
			case <-quit:
				return
			}
		}
		for _, sh := range sockets {
			s.running.Go(sh.readLoop)
		}
		s.sweepLoop(quit)
	})
	s.wakeSweep()
	s.wantTurn()
}

// Halt ends Run: nothing is read from the shared socket any more, so that datagrams wait there, and no client comes by it. It waits
// for the reader, which must not be its caller and may be looking up a client's path, for at most lookTime. Clients are not ended.
func (s *Server) Halt() {
	s.stopping.Store(true)
	s.mu.Lock()
	if s.quit != nil {
		close(s.quit)
		s.quit = nil
	}
	for _, sh := range s.all() { // wakes a reader that waits; one that reads looks at stopping after each batch
		sh.interrupt(true)
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Close ends Run and, with link.ErrShutdown, every client's Run, and closes the shared socket. It may be called more than once, and
// without Run. Its error is nil.
func (s *Server) Close() error {
	s.Halt()
	s.mu.Lock()
	over := s.closed
	s.closed = true
	all, sockets := s.list(), s.all()
	s.mu.Unlock()
	if over {
		return nil
	}
	for _, c := range all {
		c.end(link.ErrShutdown)
	}
	for _, sh := range sockets {
		sh.close()
	}
	return nil
}

// list is the clients there are. The caller holds mu.
func (s *Server) list() []*client {
	all := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		all = append(all, c)
	}
	return all
}

// forget takes c out of the table, so that its address may become a new client.
func (s *Server) forget(c *client) {
	s.mu.Lock()
	if s.clients[c.path] == c {
		delete(s.clients, c.path)
	}
	s.mu.Unlock()
}

// enlarge asks for a receive buffer. A refusal costs speed only, so it is ignored.
func enlarge(fd, option, size int) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err == nil && n >= size {
		return
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, size)
}
