// SPDX-License-Identifier: Apache-2.0

// Package httpd serves HTTP/1.1 to a bounded number of connections with one request each, on sockets that an upgrade in place hands
// over. The control socket and the port for metrics are served by it.
package httpd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// MaxConns is how many connections there are at once on each socket. Further ones wait in the socket's queue.
const MaxConns = 64

// acceptBurst connections are taken at once, and then acceptRate each second: thousands that come all the time would else take a
// processor away from the frames.
const (
	acceptBurst = 200
	acceptRate  = 1000
)

// Options say how to serve. Times count from accept, since a connection carries one request.
type Options struct {
	Handler     http.Handler
	RequestTime time.Duration // for the request, with its body
	AnswerTime  time.Duration
	MaxHeader   int // bytes
	Log         *slog.Logger
}

// A Server serves from Run to Close.
type Server struct {
	http    *http.Server
	sockets []*socket
	log     *slog.Logger
	running sync.WaitGroup
	ctx     context.Context // of requests; done at the end
	end     context.CancelFunc
}

// A Socket is a listener of TCP or unix. Close closes it.
type Socket interface {
	net.Listener
	SetDeadline(t time.Time) error
}

// New makes a server on these sockets.
func New(o Options, sockets ...Socket) *Server {
	s := &Server{log: o.Log}
	s.ctx, s.end = context.WithCancel(context.Background())
	for _, ln := range sockets {
		s.sockets = append(s.sockets, &socket{
			Socket: ln, ctx: s.ctx, pace: rate.NewLimiter(acceptRate, acceptBurst), left: make(chan struct{}, 1),
		})
	}
	s.http = &http.Server{
		Handler:           o.Handler,
		ReadHeaderTimeout: o.RequestTime,
		ReadTimeout:       o.RequestTime,
		WriteTimeout:      o.AnswerTime,
		MaxHeaderBytes:    o.MaxHeader,
		ConnContext:       withConn,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what clients do wrong is no event

		DisableGeneralOptionsHandler: true,
	}
	s.http.SetKeepAlivesEnabled(false)
	return s
}

// Context is done when no further connection is taken.
func (s *Server) Context() context.Context { return s.ctx }

// Run takes connections until ctx is done or Close, and returns at once. A failed accept is tried again, less and less often down to
// once a second.
func (s *Server) Run(ctx context.Context) {
	context.AfterFunc(ctx, s.shut)
	for _, ln := range s.sockets {
		s.running.Go(func() {
			if err := s.http.Serve(netutil.LimitListener(ln, MaxConns)); s.ctx.Err() == nil {
				s.log.Warn("a socket is not served any more", "address", ln.Addr().String(), "error", err)
			}
		})
	}
}

// Detach stops accepting: a client that connects from here on waits for Attach, or for the next image. It waits until the connections
// that were accepted are closed, but no longer than most.
func (s *Server) Detach(most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	for _, ln := range s.sockets {
		ln.stop()
	}
	for _, ln := range s.sockets {
		for ln.inside() > 0 {
			select {
			case <-ln.left:
			case <-t.C:
				return
			}
		}
	}
}

// Attach undoes Detach, within a second.
func (s *Server) Attach() {
	for _, ln := range s.sockets {
		_ = ln.SetDeadline(time.Time{})
	}
}

// Close ends Run and all connections.
func (s *Server) Close() {
	s.shut()
	_ = s.http.Close()
	s.running.Wait()
}

// shut takes no further connection.
func (s *Server) shut() {
	s.end()
	for _, ln := range s.sockets {
		_ = ln.Close()
	}
}

// A socket counts its connections.
type socket struct {
	Socket
	ctx  context.Context
	pace *rate.Limiter
	left chan struct{} // told when a connection ends

	accepting sync.Mutex // held while a connection is taken and counted

	mu    sync.Mutex
	conns int
}

// Accept implements net.Listener. A timeout, after stop, has the HTTP server ask again.
func (s *socket) Accept() (net.Conn, error) {
	if s.pace.Wait(s.ctx) != nil {
		return nil, net.ErrClosed
	}
	s.accepting.Lock()
	defer s.accepting.Unlock()
	nc, err := s.Socket.Accept()
	if err != nil {
		return nil, err
	}
	s.count(1)
	c := &conn{Conn: nc, socket: s}
	if uc, ok := nc.(*net.UnixConn); ok {
		c.peer = peercred.Of(uc)
	}
	return c, nil
}

// stop has Accept fail. When it returns, all connections that it has taken are counted.
func (s *socket) stop() {
	_ = s.SetDeadline(time.Unix(1, 0))
	s.accepting.Lock()
	defer s.accepting.Unlock()
}

func (s *socket) inside() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func (s *socket) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns += n
	select {
	case s.left <- struct{}{}:
	default:
	}
}

// A conn is a client's connection.
type conn struct {
	net.Conn // as it was accepted

	peer   peercred.Peer // of a unix socket, as it was when it connected
	socket *socket
	once   sync.Once
}

// leave has Detach not wait for c any more.
func (c *conn) leave() { c.once.Do(func() { c.socket.count(-1) }) }

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// RemoteAddr implements net.Conn. It is how ConnOf finds c inside what netutil makes of it.
func (c *conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

type address struct {
	net.Addr
	conn *conn
}

// connKey is the context's key for the connection.
type connKey struct{}

func withConn(ctx context.Context, nc net.Conn) context.Context {
	a, _ := nc.RemoteAddr().(address)
	return context.WithValue(ctx, connKey{}, a.conn)
}

// ConnOf is the connection that r came by, nil if no Server took it.
func ConnOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// PeerOf is the program that made r, by a unix socket, as it was when it connected.
func PeerOf(r *http.Request) peercred.Peer {
	if c := ConnOf(r); c != nil {
		return c.peer
	}
	return peercred.Peer{}
}

// Hijack takes the connection of r out of the server's hands: Detach does not wait for it. The caller closes nc, which is c as the
// server knows it.
func Hijack(w http.ResponseWriter, r *http.Request) (c *conn, nc net.Conn, err error) {
	if c = ConnOf(r); c == nil {
		return nil, nil, errors.New("the connection is not this server's")
	}
	if nc, _, err = http.NewResponseController(w).Hijack(); err != nil {
		return nil, nil, err
	}
	c.leave()
	return c, nc, c.SetDeadline(time.Time{})
}
