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
	"cmp"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// Options set up a Server.
type Options struct {
	Conn *net.UnixConn // bound, SOCK_DGRAM; taken over
	// Renew makes another socket like Conn and gives it the path; nil: it cannot be done. Only Linux needs it.
	Renew func() (*net.UnixConn, error)
	// Store keeps a copy of a socket, in place of one that it may have, for Stored of a process that comes after this one is killed, and
	// Forget drops it; nil: they are not kept.
	Store     func(id, fd int)
	Forget    func(id int)
	Trust     Trust
	QueueSize int       // bytes of one client's queue; 0 = link.DefaultQueueSize
	Refused   *Refusals // nil: some of its own
	Log       *slog.Logger

	// Serve makes a session for l, whose client bound path and whose socket belongs to uid. The session calls Run and then
	// Close. Serve must not block. An error: the client is not served, and the Server closes l.
	Serve func(l link.Link, path string, uid uint32) error
}

// A Server reads the shared socket and hands each client's frames to its link.
//
//	New or Attach --Run--> running --Halt--> halted --Run--> running
//	any --Close--> closed
type Server struct {
	opts   Options
	self   int // our process id, which is no client's
	sender *mmsg.Sender

	mu      sync.Mutex
	runs    bool               // Run was called last, not Halt
	lastID  int                // of a shared
	sockets []*shared          // in the order in which they had the path; the last one has it
	fixed   bool               // the last one keeps it
	clients map[string]*client // by the path that they bound
	coming  map[string]*client // those whose address is looked at
	closed  bool
	running sync.WaitGroup // readers

	stopping atomic.Bool // the readers end
	looks    atomic.Int32
	refused  *Refusals
}

// New makes a Server, which owns o.Conn from now on unless there is an error. Nothing is read before Run.
func New(o Options) (*Server, error) {
	s := newServer(o)
	_, err := s.add(o.Conn, 0, false)
	return s, err
}

func newServer(o Options) *Server {
	if o.Store == nil {
		o.Store, o.Forget = func(int, int) {}, func(int) {}
	}
	return &Server{
		opts: o, self: os.Getpid(), sender: mmsg.NewSender(), clients: map[string]*client{}, coming: map[string]*client{},
		refused: cmp.Or(o.Refused, NewRefusals(o.Log)),
	}
}

// Run begins to serve clients, and returns at once. It does nothing while the Server runs, or when it is closed.
func (s *Server) Run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs || s.closed {
		return
	}
	s.runs = true
	s.stopping.Store(false)
	for _, sh := range s.sockets {
		sh.interrupt(s.due(sh))
		s.running.Go(sh.readLoop)
	}
}

// Halt ends Run: nothing is read from the shared sockets any more, so that datagrams wait there, and no client comes by them. It waits
// for the readers, which must not be its callers, and at most for lookTime until the addresses that are new are looked at. Clients
// are not ended.
func (s *Server) Halt() {
	s.mu.Lock()
	s.stopping.Store(true)
	s.runs = false
	for _, sh := range s.sockets { // wakes a reader that waits; one that reads looks at stopping after each batch
		sh.interrupt(true)
	}
	s.mu.Unlock()
	s.running.Wait()
	for end := time.Now().Add(lookTime); s.looks.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// Close ends Run and, with link.ErrShutdown, every client's Run, and closes the shared sockets, each with its last client. It may be
// called more than once, and without Run. Its error is nil.
func (s *Server) Close() error {
	s.Halt()
	s.mu.Lock()
	s.closed = true
	s.closeIdle()
	all := slices.Collect(maps.Values(s.clients))
	s.mu.Unlock()
	for _, c := range all {
		c.end(link.ErrShutdown)
	}
	return nil
}

// forget takes c out of the tables, so that its address may become a new client.
func (s *Server) forget(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []map[string]*client{s.clients, s.coming} {
		if m[c.path] == c {
			delete(m, c.path)
		}
	}
}
