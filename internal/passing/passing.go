// SPDX-License-Identifier: Apache-2.0

// Package passing serves clients that get a connected descriptor from the daemon, on the socket attach, or hand one over, on
// the socket adopt. Both become sessions like those of any other client. The protocol is in package proto.
package passing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/unixgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

const (
	// requestTime is how long a client may take from its connection to the end of its request.
	requestTime = 5 * time.Second

	// settleTime is how long a client that was refused may take to read that, at most.
	settleTime = 100 * time.Millisecond

	// readyTime is how long a client's interface may take to start.
	readyTime = 15 * time.Second

	// keepTime is how long the client's end of a pair stays open here for a client that took the answer and says nothing.
	keepTime = 10 * time.Second

	// replyTime is how long a client may take to make room for the reply, which is short.
	replyTime = 5 * time.Second

	// maxOpen is how many connections there may be in all, those included that are the lifeline of a session.
	maxOpen = 2048
	// maxOpenUser is how many of these one user may have.
	maxOpenUser = maxOpen / 2
)

// The sockets that connections come by.
const (
	doorAttach = "attach"
	doorAdopt  = "adopt"
)

var (
	// errLifeline is why a session ends whose client has closed the connection that it attached by.
	errLifeline = errors.New("attach connection closed")
	// errStopped is the cause of a context that Stop has ended.
	errStopped = errors.New("the daemon is stopping")
	// errReplaced is what a client is told whose request was not whole when Pause had waited long enough.
	errReplaced = errors.New("the daemon is being replaced by another version; ask again")
)

// Options set up a Server.
type Options struct {
	Network func() vnet.NetworkInfo // for replies
	// Clients is the *perclient.Server of the daemon.
	Clients interface {
		Serve(l link.Link, c perclient.Client) (*perclient.Session, error)
		Restore(l link.Link, c perclient.Client, v perclient.Saved) (*perclient.Session, error)
	}
	// Trust says whom a socket that was handed over bound, not connected, may be answered to, and which sockets are the
	// daemon's own.
	Trust     unixgram.Trust
	QueueSize int // bytes of a client's queue; 0 = link.DefaultQueueSize
	Log       *slog.Logger
}

// times are limits that tests make shorter.
type times struct{ request, ready, keep, pause time.Duration }

// A session is a perclient.Session.
type session interface {
	Ready(ctx context.Context) (vnet.PortInfo, error)
	End(reason error)
	Done() <-chan struct{}
	Save() (v perclient.Saved, ok bool)
}

// A Server serves the connections of attach and adopt.
//
//	accepted --> reading --request--> served, or answered with an error --> closed
//	reading, not a byte has come --Pause--> left as it is --Resume, or by the next image--> reading
//	accepted --maxOpen are open, or maxOpenUser--> answered with "full", closed
type Server struct {
	opts    Options
	serve   func(link.Link, perclient.Client) (session, error)
	restore func(link.Link, perclient.Client, perclient.Saved) (session, error)

	ctx    context.Context // until Stop
	cancel context.CancelCauseFunc
	times  times
	self   int // our process id
	watch  watcher

	mu       sync.Mutex
	stopping bool
	open     int            // connections
	users    map[uint32]int // connections of each user that has any
	unread   map[*conn]struct{}
	members  map[*member]struct{}
	pause    pause
	running  sync.WaitGroup
}

// NewServer makes a server. It runs nothing by itself until it is given a connection.
func NewServer(o Options) *Server {
	s := &Server{
		opts: o, self: os.Getpid(), users: map[uint32]int{}, unread: map[*conn]struct{}{}, members: map[*member]struct{}{},
		times: times{request: requestTime, ready: readyTime, keep: keepTime, pause: pauseTime},
	}
	s.serve = func(l link.Link, c perclient.Client) (session, error) {
		x, err := o.Clients.Serve(l, c)
		if err != nil {
			return nil, err // and no session that is a nil pointer
		}
		return x, nil
	}
	s.restore = func(l link.Link, c perclient.Client, v perclient.Saved) (session, error) {
		x, err := o.Clients.Restore(l, c, v)
		if err != nil {
			return nil, err
		}
		return x, nil
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.watch.init(s)
	return s
}

// A conn is one connection.
type conn struct {
	*net.UnixConn
	srv    *Server
	handle func(*conn) (rest func())
	until  time.Time // when the request has to be there
	peer   peercred.Peer
	door   string
	calm   func() bool // ends that Stop interrupts reading
	cut    atomic.Bool // its request is not waited for any more
	round  int         // the Server's when the request's deadline was set
}

// Attach takes over a connection to the socket attach: it serves the client that asks for a descriptor. It never blocks.
func (s *Server) Attach(c *net.UnixConn) { s.accept(c, doorAttach, s.attach) }

// Adopt takes over a connection to the socket adopt: it serves the descriptor that comes with it. It never blocks.
func (s *Server) Adopt(c *net.UnixConn) { s.accept(c, doorAdopt, s.adopt) }

// accept gives a connection to a goroutine if there is room, else it turns it away.
func (s *Server) accept(uc *net.UnixConn, door string, handle func(*conn) (rest func())) {
	s.take(&conn{UnixConn: uc, srv: s, handle: handle, until: time.Now().Add(s.times.request), door: door, peer: peercred.Of(uc)})
}

// take is accept for a connection of which more is known.
func (s *Server) take(c *conn) {
	switch s.admit(c) {
	case proto.Stopping:
		c.turnAway(&proto.Error{Code: proto.Stopping, Text: errStopped.Error()})
	case proto.Full:
		c.turnAway(&proto.Error{Code: proto.Full, Text: "there are too many such connections, of this user or in all; try again later"})
		s.complain(c, "connection refused: there are too many", "most", maxOpen, "most_of_a_user", maxOpenUser)
	}
}

// admit has c served, unless it returns why not.
func (s *Server) admit(c *conn) proto.Code {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return proto.Stopping
	case s.open >= maxOpen, s.users[c.peer.User()] >= maxOpenUser:
		return proto.Full
	}
	s.count(c)
	s.unread[c] = struct{}{}
	s.running.Go(c.run)
	return ""
}

// count counts a connection that is open. The caller holds mu.
func (s *Server) count(c *conn) {
	s.open++
	s.users[c.peer.User()]++
}

// run serves one connection to its end. The rest, which lasts as long as a virtual machine, has a goroutine of its own: the
// stack of one that has read a request is larger.
func (c *conn) run() {
	rest := c.request()
	if rest == nil {
		c.end()
		return
	}
	c.srv.running.Go(func() {
		defer c.end()
		defer c.srv.recovered(c)
		rest()
	})
}

// request reads the request and does what it asks for.
func (c *conn) request() (rest func()) {
	s := c.srv
	defer s.recovered(c)
	c.calm = context.AfterFunc(s.ctx, func() { _ = c.SetReadDeadline(past) })
	defer c.calm()
	if !c.begins() {
		return nil
	}
	defer s.rests(c)
	faults.Point("passing.request")
	return c.handle(c)
}

// end closes the connection.
func (c *conn) end() {
	s := c.srv
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unread, c)
	s.open--
	if s.users[c.peer.User()]--; s.users[c.peer.User()] == 0 {
		delete(s.users, c.peer.User())
	}
}

// recovered turns a panic into the end of one connection.
func (s *Server) recovered(c *conn) {
	if r := recover(); r != nil {
		s.opts.Log.Error("internal error: this connection is closed, the others run on; please report it",
			"doing", c.door, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
}

// turnAway answers a connection that nobody serves, and closes it. It does not wait: a new connection has room for the answer.
func (c *conn) turnAway(e *proto.Error) {
	_ = c.SetDeadline(time.Now().Add(replyTime))
	_ = proto.WriteMessage(c.UnixConn, proto.Reply{Error: e}.Encode(), proto.None)
	_ = c.Close()
}

// Stop answers connections with "stopping" from now on, those too whose request has not come yet or whose interface has not
// started. Sessions are ended by whoever serves them, and their connections with them.
func (s *Server) Stop() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.cancel(errStopped)
}

// Wait waits until no connection is left or ctx is done. Callers call Stop and end the accept loops and the sessions first.
func (s *Server) Wait(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.running.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// complain logs what a client did wrong, or what was wrong for it.
func (s *Server) complain(c *conn, what string, args ...any) {
	s.opts.Log.Warn(what, slices.Concat([]any{"via", c.door}, args, c.peer.Args())...)
}

// broken logs what recover returned in a goroutine that looks after clients; the next look is tried.
func (s *Server) broken(doing string, r any) {
	s.opts.Log.Error("internal error: clients are served on; please report it", "doing", doing, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
}
