// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A daemon tells of itself and lets itself be changed. Its methods are called from many goroutines.
type daemon interface {
	// Status describes it now.
	Status() status.Status
	// Kick ends a client's session and waits for its end, as long as ctx lasts. ErrNoClient: there is none.
	Kick(ctx context.Context, id uint64, by peercred.Peer) error
	// Level is that of the log: "debug", "info", "warn" or "error". SetLevel takes one of these.
	Level() string
	SetLevel(level string, by peercred.Peer) error
}

// ErrNoClient is what Kick answers when no client has this number now.
var ErrNoClient = errors.New("there is no such client")

// kickTime is how long the answer to a kick waits for the end of the client's session, which may take 200 ms.
const kickTime = 2 * time.Second

// Clients is the answer to GET /v1/clients.
type Clients struct {
	Format  int             `json:"format"` // status.Format
	Now     time.Time       `json:"now"`
	Clients []status.Client `json:"clients"`
}

// Health is the answer to GET /v1/health.
type Health struct {
	Format int              `json:"format"` // status.Format
	Now    time.Time        `json:"now"`
	Health []status.Problem `json:"health"`
}

// Level is the body and the answer of PUT /v1/log-level, and the answer to GET.
type Level struct {
	Level string `json:"level"`
}

// kickAnswer is the answer to DELETE /v1/clients/{id}.
type kickAnswer struct {
	ID    uint64 `json:"id"`
	Ended bool   `json:"ended"` // false: its session is still ending
}

// routes are the paths that every daemon has.
func (s *Server) routes() map[string]http.HandlerFunc {
	last := func() *snapshot { return s.cache.get(s.o.Source) }
	return map[string]http.HandlerFunc{
		"GET /v1/version":         s.version,
		"GET /v1/status":          func(w http.ResponseWriter, r *http.Request) { last().whole(w, r) },
		"GET /v1/health":          func(w http.ResponseWriter, r *http.Request) { last().health(w, r) },
		"GET /v1/clients":         func(w http.ResponseWriter, r *http.Request) { last().clients(w, r) },
		"GET /v1/clients/{id}":    s.client,
		"DELETE /v1/clients/{id}": s.kick,
		"GET /v1/log-level":       func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, http.StatusOK, Level{s.o.Source.Level()}) },
		"PUT /v1/log-level":       s.setLevel,
		"POST /v1/upgrade":        s.upgrade,

		"POST /v1/upgrade/gateway": s.upgrade,
	}
}

// clientID is the number in r's path; when it is none, r has been answered.
func clientID(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	text := r.PathValue("id")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		WriteError(w, http.StatusBadRequest, "bad_id", fmt.Sprintf("%q is no client's number; GET /v1/clients has them", clip(text)))
	}
	return id, err == nil
}

func noClient(w http.ResponseWriter, id uint64) {
	WriteError(w, http.StatusNotFound, "no_client", fmt.Sprintf("there is no client %d now; GET /v1/clients has those that there are", id))
}

// client is GET /v1/clients/{id}.
func (s *Server) client(w http.ResponseWriter, r *http.Request) {
	id, ok := clientID(w, r)
	if !ok {
		return
	}
	for _, c := range s.cache.get(s.o.Source).status.Clients {
		if c.ID == id {
			WriteJSON(w, http.StatusOK, c)
			return
		}
	}
	noClient(w, id)
}

// kick is DELETE /v1/clients/{id}.
func (s *Server) kick(w http.ResponseWriter, r *http.Request) {
	id, ok := clientID(w, r)
	if !ok || !allowed(w, r, "disconnect its clients") {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), kickTime)
	defer cancel()
	err := s.o.Source.Kick(ctx, id, PeerOf(r))
	s.cache.forget()
	switch {
	case errors.Is(err, ErrNoClient):
		noClient(w, id)
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		WriteError(w, http.StatusInternalServerError, "failed", err.Error())
	default:
		WriteJSON(w, http.StatusOK, kickAnswer{ID: id, Ended: err == nil})
	}
}

// setLevel is PUT /v1/log-level.
func (s *Server) setLevel(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r, "change what it logs") {
		return
	}
	var l Level
	if !readJSON(w, r, &l) {
		return
	}
	if err := s.o.Source.SetLevel(l.Level, PeerOf(r)); err != nil {
		WriteError(w, http.StatusBadRequest, "bad_level", err.Error())
		return
	}
	s.cache.forget()
	WriteJSON(w, http.StatusOK, Level{s.o.Source.Level()})
}
