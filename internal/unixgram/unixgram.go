// SPDX-License-Identifier: Apache-2.0

// Package unixgram serves any number of datagram clients on one bound unix socket, told apart by the address that each of
// them bound, one link.Link for each.
//
// There are two kinds of client. One that sends to the shared socket without being connected to it, as QEMU does, is
// answered through a reply socket of its own: a queue, a send buffer and readiness events that nobody else has. One that has
// connected its socket to the shared one, as vfkit and libkrun do, takes datagrams from the shared socket only (on Linux), and
// what it has not read is charged to the shared socket's send buffer: it gets a credit there; see credit.go.
package unixgram

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/mmsg"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
)

// sharedBufLen is the send and receive buffer asked for on the shared socket, in bytes.
const sharedBufLen = 4 << 20

// Options set up a Server.
type Options struct {
	Conn      *net.UnixConn // bound, SOCK_DGRAM; taken over
	Trust     Trust
	QueueSize int // bytes of one client's queue; 0 = link.DefaultQueueSize
	MaxFrame  int // bytes of the longest frame for a client; 0 = mmsg.MaxLen
	Log       *slog.Logger

	// Serve makes a session for l, whose client bound path and whose socket belongs to uid. The session calls Run and then
	// Close. Serve is called by the reader, so it must not block. An error: the client is not served, and the Server closes l.
	Serve func(l link.Link, path string, uid uint32) error

	// Save saves the session that serves the client at path; false: there is none. It is called by Server.Save.
	Save func(path string) (perclient.Saved, bool)
	// Restored is Serve for a client that another process image had, whose session was saved as v.
	Restored func(l link.Link, path string, uid uint32, v perclient.Saved) error
}

// A Server reads the shared socket and hands each client's frames to its link.
//
//	New or Restore --Run--> running --Close--> closed
//	running --Pause--> paused --Save--> saved --Resume--> running
type Server struct {
	opts   Options
	conn   *net.UnixConn
	rc     syscall.RawConn
	shared *shared
	self   int            // our process id, of which nobody is a client
	rcv    *mmsg.Receiver // used by the reader
	last   *client        // whose datagram the reader had last; nil when it has ended
	at     *client        // to whom the reader hands datagrams just now
	quit   chan struct{}  // closed by Close
	some   chan struct{}  // has something when there is a client

	mu      sync.Mutex
	clients map[string]*client // by the path that they bound
	started bool
	closed  bool
	running sync.WaitGroup

	stopping atomic.Bool
	pause    pause
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
	rc, err := o.Conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("get descriptor of datagram socket: %w", err)
	}
	s := &Server{opts: o, conn: o.Conn, rc: rc, self: os.Getpid(), quit: make(chan struct{}), some: make(chan struct{}, 1), clients: map[string]*client{}}
	s.refused.log = o.Log
	var serr error
	err = rc.Control(func(fd uintptr) { s.shared, serr = newShared(int(fd)) })
	if err == nil {
		err = serr
	}
	if err != nil {
		return nil, fmt.Errorf("set up datagram socket: %w", err)
	}
	return s, nil
}

// Run serves clients until Close is called. It is called once.
func (s *Server) Run() {
	s.mu.Lock()
	if s.started || s.closed {
		s.mu.Unlock()
		return
	}
	s.started = true
	s.running.Add(2)
	s.mu.Unlock()
	go func() {
		defer s.running.Done()
		s.sweepLoop()
	}()
	defer s.running.Done()
	s.readLoop()
}

// Close ends Run and, with link.ErrShutdown, every client's Run, and closes the shared socket. It waits for the reader, which
// must not be its caller, but not for the sessions. It may be called more than once, and without Run.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.running.Wait()
		return nil
	}
	s.closed = true
	all := s.list()
	s.mu.Unlock()
	s.stopping.Store(true)
	close(s.quit)
	// A deadline in the past wakes a reader that waits; one that reads looks at stopping after each batch.
	_ = s.conn.SetReadDeadline(time.Unix(1, 0))
	s.Resume()
	for _, c := range all {
		c.end(link.ErrShutdown)
	}
	s.running.Wait()
	s.shared.close()
	return s.conn.Close()
}

// list is the clients there are. The caller holds mu.
func (s *Server) list() []*client {
	all := make([]*client, 0, len(s.clients))
	for _, c := range s.clients {
		all = append(all, c)
	}
	return all
}

// Clients is how many clients there are.
func (s *Server) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// Dropped is how many datagrams came from addresses that are not trusted, by reason.
func (s *Server) Dropped() map[Reason]uint64 { return s.refused.counts() }

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
