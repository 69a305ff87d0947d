// SPDX-License-Identifier: Apache-2.0

// Package passfd serves clients that get a connected descriptor from the daemon, on the socket attach, or hand one over, on
// the socket adopt. Both become sessions like those of any other client. The protocol is in package proto.
package passfd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const (
	// requestTime is how long a client may take from its connection to the end of its request.
	requestTime = 5 * time.Second

	// lastTime is how long a request may still take at the Server's end: a client that hands a descriptor over without a request
	// waits for no answer, and cannot be told to try again.
	lastTime = 20 * time.Millisecond

	// settleTime is how long a client that was refused may take to read that, at most.
	settleTime = 100 * time.Millisecond

	// readyTime is how long a client's interface may take to start.
	readyTime = 15 * time.Second

	// replyTime is how long a client may take to make room for the reply, which is short.
	replyTime = 5 * time.Second

	// maxOpen is how many connections without an answer there may be in all, and maxOpenUser how many of one user.
	maxOpen     = 2048
	maxOpenUser = maxOpen / 2
)

// The sockets that connections come by.
const (
	viaAttach = "attach"
	viaAdopt  = "adopt"
)

var (
	// errStopped and errReplaced are the causes of a context that Stop and Detach have ended.
	errStopped  = errors.New("the daemon is stopping")
	errReplaced = errors.New("the daemon is being replaced by another version; ask again")
)

// Options set up a Server.
type Options struct {
	Network func() network.Info // for replies
	Clients *perclient.Server   // of the daemon
	// Trust says which clients a socket that was handed over bound, not connected, may answer, and which sockets are the
	// daemon's own.
	Trust     dgram.Trust
	QueueSize int             // bytes of a client's queue; 0 = link.DefaultQueueSize
	Refused   *dgram.Refusals // nil: some of its own
	Log       *slog.Logger
}

// A Server serves the connections of attach and adopt until their requests are answered. Those that are lifelines are the sessions'
// then.
//
//	accepted --> reading --request--> served, or answered with an error --> the session's, or closed
//	reading, or its interface has not started --Stop or Detach--> answered with "stopping", closed
//	accepted --maxOpen are open, or maxOpenUser--> answered with "full", closed
type Server struct {
	opts Options
	self int // our process id

	request, ready, last time.Duration // requestTime, readyTime and lastTime, but in tests

	mu      sync.Mutex
	ctx     context.Context // until Stop or Detach
	cancel  context.CancelCauseFunc
	stopped bool           // by Stop
	open    int            // connections
	users   map[uint32]int // connections of each user that has any
	running sync.WaitGroup
}

// NewServer makes a server. It runs nothing by itself until it is given a connection.
func NewServer(o Options) *Server {
	o.Refused = cmp.Or(o.Refused, dgram.NewRefusals(o.Log))
	s := &Server{opts: o, self: os.Getpid(), users: map[uint32]int{}, request: requestTime, ready: readyTime, last: lastTime}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// A conn is one connection.
type conn struct {
	*net.UnixConn
	srv  *Server
	ctx  context.Context // the Server's when it came
	peer hostfs.Peer
	via  string
	bare bool // nothing waits for an answer

	session *perclient.Session // nil before there is one
}

// Connected takes over a connection to the socket via, "attach" or "adopt". It never blocks.
func (s *Server) Connected(via string, uc *net.UnixConn) {
	c := &conn{UnixConn: uc, srv: s, via: via, peer: hostfs.PeerOf(uc)}
	no := s.admit(c)
	if no == nil {
		return
	}
	_ = c.send(proto.Reply{Error: no}, proto.None) // which does not wait: a new connection has room for it
	_ = c.Close()
	if no.Code == proto.Full {
		s.complain(c, "connection refused: there are too many", "most", maxOpen, "most_of_a_user", maxOpenUser)
	}
}

// admit has c served, unless it returns why not.
func (s *Server) admit(c *conn) *proto.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ctx = s.ctx
	switch {
	case s.ctx.Err() != nil:
		return &proto.Error{Code: proto.Stopping, Text: context.Cause(c.ctx).Error()}
	case s.open >= maxOpen, s.users[c.peer.User()] >= maxOpenUser:
		return &proto.Error{Code: proto.Full, Text: "there are too many such connections, of this user or in all; try again later"}
	}
	s.open++
	s.users[c.peer.User()]++
	s.running.Go(c.run)
	return nil
}

// run reads the request of a connection and does what it asks for.
func (c *conn) run() {
	s := c.srv
	defer c.end()
	defer func() {
		if r := recover(); r != nil {
			s.opts.Log.Error("internal error: this connection is closed, the others run on; please report it",
				"doing", c.via, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			if c.session != nil {
				c.session.End(fmt.Errorf("panic while answering: %v", r))
			}
		}
	}()
	if c.SetReadDeadline(time.Now().Add(s.request)) != nil {
		return
	}
	defer context.AfterFunc(c.ctx, func() { _ = c.SetReadDeadline(time.Now().Add(s.last)) })()
	faults.Point("passing.request")
	if c.via == viaAdopt {
		s.adopt(c)
	} else {
		s.attach(c)
	}
}

// end closes the connection. A lifeline is held by its session as well.
func (c *conn) end() {
	s := c.srv
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.users[c.peer.User()]--; s.users[c.peer.User()] == 0 {
		delete(s.users, c.peer.User())
	}
}

// finish has the connections that there are, and those that come, answered with "stopping" because of cause.
func (s *Server) finish(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = s.stopped || errors.Is(cause, errStopped)
	s.cancel(cause)
}

// Stop answers connections with "stopping" from now on, those too whose request has not come yet or whose interface has not
// started. Sessions are ended by the perclient.Server.
func (s *Server) Stop() { s.finish(errStopped) }

// Wait waits until no connection is left or ctx is done. Callers call Stop and end the accept loops and the sessions first.
func (s *Server) Wait(ctx context.Context) { perclient.Await(ctx, &s.running) }

// Detach answers requests that are not served yet with "stopping". It is called after the accept loops have ended and before the
// sessions are detached.
func (s *Server) Detach() {
	s.finish(errReplaced)
	s.running.Wait()
}

// Attach goes on after a Detach.
func (s *Server) Attach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if s.stopped { // meanwhile
		s.cancel(errStopped)
	}
}

// complain logs what a client did wrong, or what was wrong for it.
func (s *Server) complain(c *conn, what string, args ...any) {
	s.opts.Log.Warn(what, slices.Concat([]any{"via", c.via}, args, c.peer.Args())...)
}
