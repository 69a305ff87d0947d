// SPDX-License-Identifier: Apache-2.0

// Package control is what one can ask a running daemon, at SOCKET.d/control: HTTP/1.1 with JSON, one request per
// connection. Root and the daemon's user have a socket of their own beside it, control.root, so that no member of the socket's group
// keeps them out, whatever he does at the other one.
//
//	GET    /v1/version        what runs here
//	GET    /v1/status         all that the daemon knows of itself; package status has the form
//	GET    /v1/health         what is wrong
//	GET    /v1/clients        who is connected
//	GET    /v1/clients/{id}   one of them
//	GET    /v1/log-level      what is logged
//	PUT    /v1/log-level      the same, changed
//	DELETE /v1/clients/{id}   disconnect it
//	POST   /v1/upgrade        become the program that is now at the daemon's path
//
// Who can connect may read; root and the daemon's user may do the last three. An error is {"error": {"code": "…", "text": "…"}}. The
// answer to an upgrade comes from the new image: the connection is carried over.
package control

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// Limits of a client. Time counts from accept.
const (
	headerTime = 5 * time.Second
	answerTime = 30 * time.Second
	pauseTime  = 100 * time.Millisecond
	maxHeader  = 16 << 10 // bytes
	maxBody    = 64 << 10 // bytes
)

// Options say what to serve.
type Options struct {
	Listener *net.UnixListener // Run serves it, Close closes it
	Root     *net.UnixListener // the same for root and the daemon's user alone; nil: there is none
	Version  string            // of the program
	Socket   string            // path of the network's socket
	Began    time.Time         // start of the daemon; an upgrade does not change it
	Log      *slog.Logger

	// Upgrade does what POST /v1/upgrade asks for, for somebody who may. It may not return at all, or it ends the call, by
	// Refuse as a rule. ctx ends with that of Run. There is one call at a time. nil: there is no upgrade.
	Upgrade func(ctx context.Context, c *Call)

	// Source is what the daemon tells of itself; nil: nothing.
	Source Source

	// Handle adds what else there is: patterns of http.ServeMux, such as "GET /metrics". PeerOf tells who asks, Allowed whether he
	// may, ReadJSON what he sent; WriteJSON, WriteError and OpenStream answer.
	Handle map[string]http.Handler
}

// A Server answers until Close.
type Server struct {
	o         Options
	http      *http.Server
	gates     []*gate // one for each listener
	upgrading atomic.Bool
	calls     sync.WaitGroup
	stop      context.CancelFunc
	stopped   context.Context
}

// New makes a server. Run has it serve.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o}
	s.stopped, s.stop = context.WithCancel(context.Background())
	for _, ln := range []*net.UnixListener{o.Root, o.Listener} {
		if ln != nil {
			g := newGate(ln, o.Log)
			g.over = s.stopped
			s.gates = append(s.gates, g)
		}
	}
	s.http = &http.Server{
		Handler:           s.front(),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       headerTime,
		WriteTimeout:      answerTime,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withConn,
		BaseContext:       func(net.Listener) context.Context { return s.stopped },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what clients do wrong is no event

		DisableGeneralOptionsHandler: true,
	}
	s.http.SetKeepAlivesEnabled(false)
	return s
}

// front is the handler of all paths that there are.
func (s *Server) front() http.Handler {
	handle := map[string]http.Handler{
		"GET /v1/version":  withoutQuery(s.version),
		"POST /v1/upgrade": withoutQuery(s.upgrade),
	}
	if s.o.Source != nil {
		for pattern, h := range (&api{src: s.o.Source}).routes() {
			handle[pattern] = withoutQuery(h)
		}
	}
	maps.Copy(handle, s.o.Handle)
	f := &front{mux: http.NewServeMux(), log: s.o.Log, known: strings.Join(slices.SortedFunc(maps.Keys(handle), byPath), ", ")}
	for pattern, h := range handle {
		f.mux.Handle(pattern, h)
	}
	return f
}

// byPath orders patterns by their paths.
func byPath(a, b string) int {
	m, p, _ := strings.Cut(a, " ")
	n, q, _ := strings.Cut(b, " ")
	return cmp.Or(strings.Compare(p, q), strings.Compare(m, n))
}

// Run serves until Close is called or ctx is done.
func (s *Server) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.stop)()
	var serving sync.WaitGroup
	for _, g := range s.gates {
		defer context.AfterFunc(s.stopped, func() { _ = g.Close() })()
		serving.Go(func() {
			if err := s.http.Serve(g); s.stopped.Err() == nil {
				s.o.Log.Warn("the control socket is not served any more", "path", g.Addr().String(), "error", err)
			}
		})
	}
	serving.Wait()
}

// Pause stops accepting: who connects from here on waits for Resume, or for the new image. Requests that were accepted are
// answered meanwhile, and streams end, for 100 ms at most; those of an upgrade do not count.
func (s *Server) Pause() {
	for _, g := range s.gates {
		g.pause(pauseTime)
	}
}

// Resume undoes Pause.
func (s *Server) Resume() {
	for _, g := range s.gates {
		g.resume()
	}
}

// Close ends Run, and the calls that run, and waits for them until ctx is done. Streams have 100 ms to end in order.
func (s *Server) Close(ctx context.Context) {
	s.stop()
	for _, g := range s.gates {
		_ = g.Close()
		g.endStreams(pauseTime, func() bool { return len(g.streams) == 0 })
	}
	_ = s.http.Close()
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// A Version is the answer to GET /v1/version.
type Version struct {
	Version string  `json:"version"`
	PID     int     `json:"pid"`
	Socket  string  `json:"socket"`
	Uptime  float64 `json:"uptime_s"` // seconds since the daemon was started, whatever its image
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, Version{
		Version: s.o.Version,
		PID:     os.Getpid(),
		Socket:  s.o.Socket,
		Uptime:  max(0, time.Since(s.o.Began).Round(time.Millisecond).Seconds()),
	})
}

// connKey is the context's key for the connection.
type connKey struct{}

// withConn notes who is at the other end.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if p, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, p)
	}
	return ctx
}

// connOf is the connection that r came by, nil if another server than ours took it.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// PeerOf is who made the request, as it was when he connected.
func PeerOf(r *http.Request) peercred.Peer {
	if c := connOf(r); c != nil {
		return c.peer
	}
	return peercred.Peer{}
}

// Trusted tells whether p is root or the daemon's own user.
func Trusted(p peercred.Peer) bool {
	return p.Known && !p.Unverified && (p.UID == 0 || int(p.UID) == os.Geteuid())
}

// Allowed tells whether who made r may change the daemon: root and the daemon's own user. When he may not, r has been answered. what
// is what he wants to do to it, such as "upgrade it".
func Allowed(w http.ResponseWriter, r *http.Request, what string) bool {
	if Trusted(PeerOf(r)) {
		return true
	}
	WriteError(w, http.StatusForbidden, "forbidden", whoMay(os.Geteuid(), what))
	return false
}

// whoMay says who may do something to a daemon of euid.
func whoMay(euid int, what string) string {
	if euid != 0 {
		return fmt.Sprintf("only root and user %d, whose daemon this is, may %s", euid, what)
	}
	return fmt.Sprintf("only root may %s, as this is a daemon of root: use sudo", what)
}
