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

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
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
	// pauseTime is what requests have to end in at Detach.
	pauseTime = 100 * time.Millisecond
)

// An HTTP serves HTTP/1.1 from Run to Detach, to a bounded number of connections with one request each, on sockets that an upgrade in
// place hands over. Their owner closes them.
type HTTP struct {
	handler    http.Handler
	answerTime time.Duration
	log        *slog.Logger
	sockets    []*socket

	server  *http.Server       // from Run to Detach
	pause   context.CancelFunc // ends the contexts of its requests
	running sync.WaitGroup
}

// A listener is one of TCP or unix.
type listener interface {
	net.Listener
	SetDeadline(t time.Time) error
}

// NewHTTP makes a server on these sockets. answerTime counts from accept.
func NewHTTP[L listener](h http.Handler, answerTime time.Duration, log *slog.Logger, sockets ...L) *HTTP {
	s := &HTTP{handler: h, answerTime: answerTime, log: log, pause: func() {}, server: &http.Server{}}
	for _, ln := range sockets {
		s.sockets = append(s.sockets, &socket{
			listener: ln, pace: rate.NewLimiter(acceptRate, acceptBurst), taken: make(chan struct{}, maxConns),
		})
	}
	return s
}

// Run takes connections until ctx is done or Detach, and returns at once. A failed accept is tried again, less and less often
// down to once a second.
func (s *HTTP) Run(ctx context.Context) {
	context.AfterFunc(ctx, s.shut)
	base, pause := context.WithCancel(ctx)
	h := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       headerTime,
		WriteTimeout:      s.answerTime,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what clients do wrong is no event

		DisableGeneralOptionsHandler: true,
	}
	h.SetKeepAlivesEnabled(false)
	s.server, s.pause = h, pause
	for _, ln := range s.sockets {
		ln.ctx, ln.base = ctx, base
		_ = ln.SetDeadline(time.Time{})
		s.running.Go(func() {
			if err := h.Serve(ln); base.Err() == nil {
				s.log.Warn("a socket is not served any more", "address", ln.Addr().String(), "error", err)
			}
		})
	}
}

// Detach stops accepting: a client that connects from here on waits for Run, or for the next image. Requests that were accepted
// are answered meanwhile, for 100 ms at most; their contexts are done. http.Server.Shutdown would not answer those that it has not read.
func (s *HTTP) Detach() {
	s.pause()
	ctx, cancel := context.WithTimeout(context.Background(), pauseTime)
	defer cancel()
	s.shut()
	s.running.Wait()
	for _, ln := range s.sockets {
		ln.empty(ctx)
	}
	_ = s.server.Close()
}

// shut takes no further connection.
func (s *HTTP) shut() {
	for _, ln := range s.sockets {
		_ = ln.Close()
	}
}

// A socket bounds its connections.
type socket struct {
	listener
	pace  *rate.Limiter
	taken chan struct{} // has one for each connection

	ctx, base context.Context // of Run, and of its requests, which are done at Detach
}

// Accept implements net.Listener.
func (s *socket) Accept() (net.Conn, error) {
	select {
	case s.taken <- struct{}{}:
	case <-s.base.Done():
		return nil, net.ErrClosed
	}
	_ = s.pace.Wait(context.Background()) // for a millisecond at most
	nc, err := s.listener.Accept()
	if err != nil {
		<-s.taken
		if s.base.Err() != nil { // else Serve would try again
			err = net.ErrClosed
		}
		return nil, err
	}
	c := &conn{Conn: nc, ctx: s.ctx, base: s.base, leave: sync.OnceFunc(func() { <-s.taken })}
	if uc, ok := nc.(*net.UnixConn); ok {
		c.peer = hostfs.PeerOf(uc)
	}
	return c, nil
}

// Close implements net.Listener: Accept, whose base is done, fails, and the socket stays open for the next Run, or for the next image.
func (s *socket) Close() error { return s.SetDeadline(time.Unix(1, 0)) }

// empty waits for the end of all connections, by taking all places, until ctx is done.
func (s *socket) empty(ctx context.Context) {
	for range maxConns {
		select {
		case s.taken <- struct{}{}:
			defer func() { <-s.taken }()
		case <-ctx.Done():
			return
		}
	}
}

// A conn is a client's connection.
type conn struct {
	net.Conn                  // as it was accepted
	peer      hostfs.Peer     // of a unix socket, as it was when it connected
	ctx, base context.Context // of its socket
	leave     func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// connKey is the context's key for the connection.
type connKey struct{}

func connOf(r *http.Request) *conn {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		return c
	}
	return &conn{ctx: context.Background(), base: context.Background()}
}

// PeerOf is the program that made r, by a unix socket, as it was when it connected.
func PeerOf(r *http.Request) hostfs.Peer { return connOf(r).peer }

// A stream is an answer that goes on for as long as its handler likes, such as a capture. It is a chunked body of HTTP: its reader
// can tell its end from a connection that broke. Write is used by one goroutine at a time; it blocks while the client does not
// read, until SetWriteDeadline or the end of the daemon.
//
//	open -- the client leaves, Detach, or the server's Close --> done -- Close --> closed
//
// What does not call Close within 100 ms of a Detach is cut off.
type stream struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	ctx, base context.Context // of the request, and of all
}

// OpenStream begins an answer of this type that goes on, and sends its head; the request's body has been read. It fails when
// the daemon is about to stop or to be upgraded. The handler calls Close.
func OpenStream(w http.ResponseWriter, r *http.Request, contentType string) (*stream, error) {
	st := &stream{w: w, rc: http.NewResponseController(w), ctx: r.Context(), base: connOf(r).base}
	if st.base.Err() != nil {
		return nil, &Error{http.StatusServiceUnavailable, "stopping", "the daemon is stopping or being upgraded: ask again"}
	}
	// Without deadlines: the one for reading would end the request's context.
	_ = st.rc.SetReadDeadline(time.Time{})
	_ = st.rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	_ = st.rc.Flush()
	return st, nil
}

// Write sends b as it is, at once.
func (st *stream) Write(b []byte) (int, error) {
	n, err := st.w.Write(b)
	if err == nil {
		err = st.rc.Flush()
	}
	return n, err
}

// SetWriteDeadline has Write fail from t on, for good. Zero: never.
func (st *stream) SetWriteDeadline(t time.Time) error { return st.rc.SetWriteDeadline(t) }

// Done is closed when the stream is to end: the client has left, an upgrade is under way or the daemon stops.
func (st *stream) Done() <-chan struct{} { return st.ctx.Done() }

// Left tells, once Done is closed, whether that is since the client has left.
func (st *stream) Left() bool { return st.base.Err() == nil }

// Close ends the stream in order, unless it has been cut off. The handler returns after it.
func (st *stream) Close() {
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTime)) // of what is left, and the end
}
