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
	answerTime = 30 * time.Second
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
	// Refuse as a rule. ctx ends with that of Run. There is one call at a time.
	Upgrade func(ctx context.Context, c *Call)

	// Source is what the daemon tells of itself.
	Source daemon

	// Handle adds what else there is: patterns of http.ServeMux, such as "GET /metrics". PeerOf tells who asks, allowed
	// whether it may, readJSON what it sent; WriteJSON, WriteError and OpenStream answer.
	Handle map[string]http.Handler
}

// A Server answers until Close.
type Server struct {
	o         Options
	http      *HTTP
	cache     cache
	upgrading atomic.Bool
	calls     sync.WaitGroup

	mu         sync.Mutex
	streams    context.Context // that of the streams that go on; its cause, an *Error, is why there is none now
	endStreams context.CancelCauseFunc
}

// New makes a server. Run has it serve.
func New(o Options) *Server {
	s := &Server{o: o}
	s.startStreams()
	sockets := []listener{o.Listener}
	if o.Root != nil {
		sockets = append(sockets, o.Root)
	}
	s.http = NewHTTP(s.front(), answerTime, o.Log, sockets...)
	return s
}

// front is the handler of all paths that there are.
func (s *Server) front() http.Handler {
	handle := map[string]http.Handler{}
	for pattern, h := range s.routes() {
		handle[pattern] = withoutQuery(h)
	}
	maps.Copy(handle, s.o.Handle)
	patterns := slices.SortedFunc(maps.Keys(handle), byPath)
	f := &front{mux: http.NewServeMux(), log: s.o.Log, known: strings.Join(patterns, ", ")}
	methods := map[string][]string{} // that a path takes
	for _, pattern := range patterns {
		f.mux.Handle(pattern, handle[pattern])
		method, path, _ := strings.Cut(pattern, " ")
		if method == http.MethodGet {
			method = "GET, HEAD"
		}
		methods[path] = append(methods[path], method)
	}
	for path, methods := range methods {
		allow := strings.Join(methods, ", ")
		f.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			WriteError(w, http.StatusMethodNotAllowed, "method", fmt.Sprintf("%s takes %s", clip(r.URL.Path), allow))
		})
	}
	f.mux.HandleFunc("/", f.unknown)
	return f
}

// byPath orders patterns by their paths.
func byPath(a, b string) int {
	m, p, _ := strings.Cut(a, " ")
	n, q, _ := strings.Cut(b, " ")
	return cmp.Or(strings.Compare(p, q), strings.Compare(m, n))
}

// Run takes requests until ctx is done or Close, and returns at once.
func (s *Server) Run(ctx context.Context) { s.http.Run(ctx) }

// Detach stops accepting: a client that connects from here on waits for Attach, or for the new image. Requests that were accepted are
// answered meanwhile, and streams end, for 100 ms at most; those of an upgrade do not count.
func (s *Server) Detach() {
	s.stopStreams("busy", "the daemon is being upgraded: ask again")
	s.http.Detach()
}

// Attach undoes Detach.
func (s *Server) Attach() {
	s.startStreams()
	s.http.Attach()
}

// Close ends Run, and the calls that run, and waits for them until ctx is done. Streams have 100 ms to end in order.
func (s *Server) Close(ctx context.Context) {
	s.stopStreams("stopping", "the daemon is stopping")
	s.http.Detach()
	s.http.Close()
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

// A versionAnswer is the answer to GET /v1/version.
type versionAnswer struct {
	Version string  `json:"version"`
	PID     int     `json:"pid"`
	Socket  string  `json:"socket"`
	Uptime  float64 `json:"uptime_s"` // seconds since the daemon was started, whatever its image
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	WriteJSON(w, http.StatusOK, versionAnswer{
		Version: s.o.Version,
		PID:     os.Getpid(),
		Socket:  s.o.Socket,
		Uptime:  max(0, time.Since(s.o.Began).Round(time.Millisecond).Seconds()),
	})
}

// Trusted tells whether p is root or the daemon's own user.
func Trusted(p peercred.Peer) bool {
	return p.Known && !p.Unverified && (p.UID == 0 || int(p.UID) == os.Geteuid())
}

// allowed tells whether who made r may change the daemon: root and the daemon's own user. When he may not, r has been answered. what
// is what he wants to do to it, such as "upgrade it".
func allowed(w http.ResponseWriter, r *http.Request, what string) bool {
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
