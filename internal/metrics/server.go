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
	"sync"
	"syscall"
	"time"
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
	gate    *gate
	http    *http.Server
	log     *slog.Logger
	running sync.WaitGroup
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
	s := &Server{gate: newGate(ln), log: log}
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, inside(h))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is only "+Path+" here", http.StatusNotFound)
	})
	var all http.Handler = mux
	if !anyHost {
		all = byAddress(mux)
	}
	s.http = &http.Server{
		Handler:           all,
		ReadHeaderTimeout: requestTime,
		ReadTimeout:       requestTime,
		WriteTimeout:      answerTime,
		MaxHeaderBytes:    maxHeader,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // what clients do wrong is no event
	}
	s.http.SetKeepAlivesEnabled(false)
	return s
}

// Run serves until Close, and returns at once.
func (s *Server) Run() {
	if s == nil {
		return
	}
	s.running.Go(func() {
		if err := s.http.Serve(s.gate); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.log.Warn("metrics are not served any more", "error", err)
		}
	})
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.gate.Addr() }

// Listener is what it serves, to be handed over.
func (s *Server) Listener() *net.TCPListener {
	if s == nil {
		return nil
	}
	return s.gate.TCPListener
}

// Pause stops accepting: who connects from here on waits for Resume, or for the next image, which gets the Listener. Who has asked is
// answered meanwhile, for 100 ms at most.
func (s *Server) Pause() {
	if s != nil {
		s.gate.pause(pauseTime)
	}
}

// Resume undoes Pause.
func (s *Server) Resume() {
	if s != nil {
		s.gate.resume()
	}
}

// Close ends Run and all connections.
func (s *Server) Close() {
	if s == nil {
		return
	}
	_ = s.gate.Close()
	_ = s.http.Close()
	s.running.Wait()
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

// connKey is the context's key for the connection.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// inside notes that a request has come whole, so that its connection is not the one that has to go.
func inside(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && !c.ask() {
			return
		}
		h.ServeHTTP(w, r)
	})
}
