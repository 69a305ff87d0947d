// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/httpd"
)

// Limits of a client of the TCP port. Time counts from accept, since a connection carries one request.
const (
	requestTime = 5 * time.Second
	answerTime  = 10 * time.Second
	pauseTime   = 100 * time.Millisecond
	maxHeader   = 8 << 10 // bytes
)

// Path is where the metrics are.
const Path = "/metrics"

// A Server gives the metrics to whoever connects to a TCP port. It knows nothing else, and nothing can be changed through it. All
// methods may be called on nil.
type Server struct {
	ln   *net.TCPListener
	http *httpd.Server
}

// Listen takes the port. Nobody is served before Run.
func Listen(at netip.AddrPort) (*net.TCPListener, error) {
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen for metrics at %s: another program uses that port; end it or give --metrics-listen another port: %w", at, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen for metrics at %s: this user may not use that port; give --metrics-listen one above 1023: %w", at, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen for metrics at %s: this host does not have that address: %w", at, err)
	case err != nil:
		return nil, fmt.Errorf("listen for metrics at %s: %w", at, err)
	}
	return ln, nil
}

// NewServer makes a server on ln, whose requests h answers. With anyHost it is not looked at what name it is asked by.
func NewServer(ln *net.TCPListener, h http.Handler, anyHost bool, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, h)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is only "+Path+" here", http.StatusNotFound)
	})
	var all http.Handler = mux
	if !anyHost {
		all = byAddress(mux)
	}
	return &Server{ln: ln, http: httpd.New(httpd.Options{
		Handler: all, RequestTime: requestTime, AnswerTime: answerTime, MaxHeader: maxHeader, Log: log,
	}, ln)}
}

// Run serves until Close, and returns at once.
func (s *Server) Run(ctx context.Context) {
	if s != nil {
		s.http.Run(ctx)
	}
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.ln.Addr() }

// Listener is what it serves, to be handed over.
func (s *Server) Listener() *net.TCPListener {
	if s == nil {
		return nil
	}
	return s.ln
}

// Detach stops accepting: who connects from here on waits for Attach, or for the next image, which gets the Listener. Who has asked is
// answered meanwhile, for 100 ms at most.
func (s *Server) Detach() {
	if s != nil {
		s.http.Detach(pauseTime)
	}
}

// Attach undoes Detach.
func (s *Server) Attach() {
	if s != nil {
		s.http.Attach()
	}
}

// Close ends Run and all connections.
func (s *Server) Close() {
	if s != nil {
		s.http.Close()
	}
}

// byAddress refuses requests by a name. A web page whose author has his own name lead to 127.0.0.1 would else read the metrics: to
// the browser they would be of that site.
func byAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isAddress(r.Host) {
			http.Error(w, "ask by address or as localhost, not by another name", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isAddress tells whether host, with or without a port, is an address or localhost.
func isAddress(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") || host == "" { // HTTP/1.0 has no host
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}
