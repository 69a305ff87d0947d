// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

const (
	// maxConns is how many connections there are at once on each socket. Further ones wait in the socket's queue.
	maxConns = 64

	// acceptBurst connections are taken at once, and then acceptRate each second: thousands that come all the time would else take a
	// processor away from the frames.
	acceptBurst = 200
	acceptRate  = 1000

	// headerTime is for the request, with its body. It counts from accept, since a connection carries one.
	headerTime = 5 * time.Second
	maxHeader  = 16 << 10 // bytes
	// pauseTime is what requests have to end in when the server pauses.
	pauseTime = 100 * time.Millisecond
)

// An HTTP serves HTTP/1.1 from Run to Close, to a bounded number of connections with one request each, on sockets that an upgrade in
// place hands over.
type HTTP struct {
	handler    http.Handler
	answerTime time.Duration
	log        *slog.Logger
	sockets    []*socket
	ctx        context.Context // of requests; done at the end
	end        context.CancelFunc

	server  *http.Server
	running sync.WaitGroup
}

// A listener is one of TCP or unix. Close closes it.
type listener interface {
	net.Listener
	SetDeadline(t time.Time) error
}

// NewHTTP makes a server on these sockets, of which there may be none. answerTime counts from accept.
func NewHTTP(h http.Handler, answerTime time.Duration, log *slog.Logger, sockets ...listener) *HTTP {
	s := &HTTP{handler: h, answerTime: answerTime, log: log}
	s.ctx, s.end = context.WithCancel(context.Background())
	for _, ln := range sockets {
		l := &socket{listener: ln, pace: rate.NewLimiter(acceptRate, acceptBurst), taken: make(chan struct{}, maxConns)}
		l.ctx, l.stop = context.WithCancel(s.ctx)
		s.sockets = append(s.sockets, l)
	}
	s.server = s.newServer()
	return s
}

func (s *HTTP) newServer() *http.Server {
	h := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       headerTime,
		WriteTimeout:      s.answerTime,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what clients do wrong is no event

		DisableGeneralOptionsHandler: true,
	}
	h.SetKeepAlivesEnabled(false)
	return h
}

// Run takes connections until ctx is done or Close, and returns at once. A failed accept is tried again, less and less often down to
// once a second.
func (s *HTTP) Run(ctx context.Context) {
	context.AfterFunc(ctx, s.shut)
	s.serve()
}

func (s *HTTP) serve() {
	for _, ln := range s.sockets {
		s.running.Go(func() {
			if err := s.server.Serve(ln); ln.ctx.Err() == nil {
				s.log.Warn("a socket is not served any more", "address", ln.Addr().String(), "error", err)
			}
		})
	}
}

// Detach stops accepting: a client that connects from here on waits for Attach, or for the next image. Requests that were accepted
// are answered meanwhile, for 100 ms at most.
func (s *HTTP) Detach() {
	ctx, cancel := context.WithTimeout(context.Background(), pauseTime)
	defer cancel()
	for _, ln := range s.sockets {
		_ = ln.Close()
	}
	s.running.Wait()
	for _, ln := range s.sockets {
		if !ln.empty(ctx) {
			_ = s.server.Close()
			s.server = s.newServer()
		}
	}
}

// Attach undoes Detach.
func (s *HTTP) Attach() {
	for _, ln := range s.sockets {
		ln.ctx, ln.stop = context.WithCancel(s.ctx)
		_ = ln.SetDeadline(time.Time{})
	}
	s.serve()
}

// Close ends Run and all connections.
func (s *HTTP) Close() {
	s.shut()
	_ = s.server.Close()
	s.running.Wait()
}

// shut takes no further connection.
func (s *HTTP) shut() {
	s.end()
	for _, ln := range s.sockets {
		_ = ln.listener.Close()
	}
}

// A socket bounds its connections.
type socket struct {
	listener
	pace  *rate.Limiter
	taken chan struct{} // has one for each connection

	ctx  context.Context // of Accept; from one Close to the next
	stop context.CancelFunc
}

// Accept implements net.Listener.
func (s *socket) Accept() (net.Conn, error) {
	select {
	case s.taken <- struct{}{}:
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
	var nc net.Conn
	err := s.pace.Wait(s.ctx)
	if err == nil {
		nc, err = s.listener.Accept()
	}
	if err != nil {
		<-s.taken
		if s.ctx.Err() != nil { // else Serve would try again
			err = net.ErrClosed
		}
		return nil, err
	}
	c := &conn{Conn: nc, leave: sync.OnceFunc(func() { <-s.taken })}
	if uc, ok := nc.(*net.UnixConn); ok {
		c.peer = peercred.Of(uc)
	}
	return c, nil
}

// Close implements net.Listener: Accept fails, and the socket stays open for Attach, or for the next image.
func (s *socket) Close() error {
	s.stop()
	return s.SetDeadline(time.Unix(1, 0))
}

// empty waits for the end of all connections, by taking all places, until ctx is done.
func (s *socket) empty(ctx context.Context) bool {
	for range maxConns {
		select {
		case s.taken <- struct{}{}:
			defer func() { <-s.taken }()
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// A conn is a client's connection.
type conn struct {
	net.Conn               // as it was accepted
	peer     peercred.Peer // of a unix socket, as it was when it connected
	leave    func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// connKey is the context's key for the connection.
type connKey struct{}

// PeerOf is the program that made r, by a unix socket, as it was when it connected.
func PeerOf(r *http.Request) peercred.Peer {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		return c.peer
	}
	return peercred.Peer{}
}
