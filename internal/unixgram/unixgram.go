// SPDX-License-Identifier: Apache-2.0

// Package unixgram serves any number of datagram clients on one bound unix socket, told apart by the address that each of
// them bound, one link.Link for each.
package unixgram

import (
	"errors"
	"log/slog"
	"net"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
)

// Options set up a Server.
type Options struct {
	Conn      *net.UnixConn // bound, SOCK_DGRAM; taken over
	Trust     Trust
	QueueSize int // bytes of one client's queue; 0 = link.DefaultQueueSize
	MaxFrame  int // bytes of the longest frame for a client; 0 = mmsg.MaxLen
	Log       *slog.Logger

	// Serve makes a session for l, whose client bound path and whose socket belongs to uid. It is called by the reader, so
	// it must not block. An error: the client is not served, and l has been closed by nobody.
	Serve func(l link.Link, path string, uid uint32) error
}

// errNotYet is returned while the package is being written.
var errNotYet = errors.New("datagram clients are not built in yet")

// A Server reads the shared socket.
type Server struct {
	opts Options
}

// New makes a Server. Nothing is read before Run.
func New(o Options) (*Server, error) { return &Server{opts: o}, errNotYet }

// Run serves clients until Close is called.
func (s *Server) Run() {}

// Close ends Run and every client's Run.
func (s *Server) Close() error { return s.opts.Conn.Close() }
