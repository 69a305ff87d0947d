// SPDX-License-Identifier: Apache-2.0

// Package control is what one can ask a running daemon, at SOCKET.d/control: HTTP/1.1 with JSON, one request per
// connection.
//
//	GET  /v1/version   what runs here; for all who can connect
//	POST /v1/upgrade   become the program that is now at the daemon's path; for root and the daemon's user
//
// An error is {"error": {"code": "…", "text": "…"}}. The answer to an upgrade comes from the new image: the connection is
// carried over.
package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
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
	Version  string            // of the program
	Socket   string            // path of the network's socket
	Began    time.Time         // start of the daemon; an upgrade does not change it
	Log      *slog.Logger

	// Upgrade does what POST /v1/upgrade asks for, for somebody who may. It may not return at all, or it ends the call, by
	// Refuse as a rule. ctx ends with that of Run. There is one call at a time. nil: there is no upgrade.
	Upgrade func(ctx context.Context, c *Call)

	// Handle adds what else there is: patterns of http.ServeMux, such as "GET /v1/clients". PeerOf tells who asks, WriteJSON
	// and WriteError answer.
	Handle map[string]http.Handler
}

// A Server answers until Close.
type Server struct {
	o         Options
	http      *http.Server
	gate      *gate
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
	s := &Server{o: o, gate: newGate(o.Listener, o.Log)}
	s.stopped, s.stop = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/version", s.version)
	mux.HandleFunc("POST /v1/upgrade", s.upgrade)
	for pattern, h := range o.Handle {
		mux.Handle(pattern, h)
	}
	s.http = &http.Server{
		Handler:           inJSON(mux),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       headerTime,
		WriteTimeout:      answerTime,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withConn,
		BaseContext:       func(net.Listener) context.Context { return s.stopped },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what clients do wrong is no event
	}
	s.http.SetKeepAlivesEnabled(false)
	return s
}

// Run serves until Close is called or ctx is done.
func (s *Server) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.stop)()
	defer context.AfterFunc(s.stopped, func() { _ = s.gate.Close() })()
	if err := s.http.Serve(s.gate); s.stopped.Err() == nil {
		s.o.Log.Warn("the control socket is not served any more", "error", err)
	}
}

// Pause stops accepting: who connects from here on waits for Resume, or for the new image. Requests that were accepted are
// answered meanwhile, and streams end, for 100 ms at most; those of an upgrade do not count.
func (s *Server) Pause() { s.gate.pause(pauseTime) }

// Resume undoes Pause.
func (s *Server) Resume() { s.gate.resume() }

// Close ends Run, and the calls that run, and waits for them until ctx is done. Streams have 100 ms to end in order.
func (s *Server) Close(ctx context.Context) {
	s.stop()
	_ = s.gate.Close()
	s.gate.endStreams(pauseTime, func() bool { return len(s.gate.streams) == 0 })
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

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		WriteError(w, http.StatusInternalServerError, "internal", fmt.Sprintf("the answer cannot be written: %v", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// An Error is what went wrong, for programs and for people.
type Error struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// errorBody is the form of every error.
type errorBody struct {
	Error Error `json:"error"`
}

// WriteError answers with an error.
func WriteError(w http.ResponseWriter, status int, code, text string) {
	WriteJSON(w, status, errorBody{Error{code, text}})
}
