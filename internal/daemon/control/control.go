// SPDX-License-Identifier: Apache-2.0

// Package control is what one can ask a running daemon, at SOCKET.d/control: HTTP/1.1 with JSON, one request per
// connection. Root and the daemon's user have a socket of their own beside it, control.root, so that no member of the socket's group
// keeps them out, whatever it does at the other one.
//
//	GET    /v1/version        what runs here
//	GET    /v1/status         all that the daemon knows of itself; package status has the form
//	GET    /v1/health         what is wrong
//	GET    /v1/clients        those that are connected
//	GET    /v1/clients/{id}   one of them
//	GET    /v1/log-level      what is logged
//	PUT    /v1/log-level      the same, changed
//	DELETE /v1/clients/{id}   disconnect it
//	POST   /v1/upgrade        become the program that is now at the daemon's path
//
// A user that can connect may read; root and the daemon's user may do the last three. An error is {"error": {"code": "…", "text": "…"}}. The
// answer to an upgrade comes from the new image: the connection is carried over.
package control

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"runtime/debug"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Limits of a client. Time counts from accept.
const (
	answerTime = 30 * time.Second
	maxBody    = 64 << 10 // bytes
)

// Options say what to serve.
type Options struct {
	Sockets []*net.UnixListener
	Log     *slog.Logger

	// Upgrade does what POST /v1/upgrade asks for, for a user who may; with gateway, the network's gateway shall become the new program
	// as well. It returns only if that did not come about, when it has answered c, or at the end of ctx, which is that of Run.
	Upgrade func(ctx context.Context, c *net.UnixConn, gateway bool)

	// What follows is called from many goroutines. Describe describes the daemon now.
	Describe func() status.Status
	// Kick ends a client's session and waits for its end, as long as ctx lasts. It may fail with what NoClient returns.
	Kick func(ctx context.Context, id uint64, by hostfs.Peer) error
	// SetLevel sets that of the log: "debug", "info", "warn" or "error".
	SetLevel func(level string, by hostfs.Peer) error

	// Handle adds what else there is: patterns of http.ServeMux, such as "GET /metrics".
	Handle map[string]http.Handler
}

// A server answers requests.
type server struct {
	o     Options
	cache cache

	mux *http.ServeMux
}

// New makes the server of the control sockets. While it is detached, a client that connects waits for its next Run, or for the new image;
// an upgrade goes on, and streams have 100 ms to end in order.
func New(o Options) *HTTP {
	s := &server{o: o, mux: http.NewServeMux()}
	for pattern, h := range s.routes() {
		s.mux.Handle(pattern, h)
	}
	for pattern, h := range o.Handle {
		s.mux.Handle(pattern, h)
	}
	return NewHTTP(s, answerTime, o.Log, o.Sockets...)
}

// ServeHTTP implements http.Handler. It bounds the body, and has a handler's panic end its request only.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("internal error: a request at the control socket was not answered, all else runs on; please report it",
				"method", clip(r.Method), "path", clip(r.URL.Path), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			writeAnswer(w, &Error{http.StatusInternalServerError, "internal", "internal error: see the daemon's log, and please report it"})
		}
	}()
	if r.RequestURI == "*" || r.Method == http.MethodConnect || path.Clean(r.URL.Path) != r.URL.Path { // for which the mux has words of its own
		writeAnswer(w, unknown(r))
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	h.ServeHTTP(onlyHeader{w}, r)
	if allow := w.Header().Get("Allow"); allow != "" {
		writeAnswer(w, &Error{http.StatusMethodNotAllowed, "method", fmt.Sprintf("%s takes %s", clip(r.URL.Path), allow)})
		return
	}
	writeAnswer(w, unknown(r))
}

// onlyHeader takes from the mux what methods a path takes, and leaves its words out.
type onlyHeader struct{ http.ResponseWriter }

func (onlyHeader) WriteHeader(int)             {}
func (onlyHeader) Write(b []byte) (int, error) { return len(b), nil }

// unknown is the answer to a request for what there is not.
func unknown(r *http.Request) *Error {
	what := cmp.Or(r.URL.Path, r.RequestURI)
	return &Error{http.StatusNotFound, "not_found", fmt.Sprintf("there is no %s here: docs/control-api.md has what there is", clip(what))}
}

// Trusted tells whether p is root or the daemon's own user.
func Trusted(p hostfs.Peer) bool {
	return p.Known && !p.Unverified && (p.UID == 0 || int(p.UID) == os.Geteuid())
}

// allowed is why the client that made r may not change the daemon, nil if it may: it is root's or of the daemon's own user. what
// is what it wants to do to the daemon, such as "upgrade it".
func allowed(r *http.Request, what string) *Error {
	if Trusted(PeerOf(r)) {
		return nil
	}
	return &Error{http.StatusForbidden, "forbidden", whoMay(os.Geteuid(), what)}
}

// whoMay says who may do something to a daemon of euid.
func whoMay(euid int, what string) string {
	if euid != 0 {
		return fmt.Sprintf("only root and user %d, whose daemon this is, may %s", euid, what)
	}
	return fmt.Sprintf("only root may %s, as this is a daemon of root: use sudo", what)
}
