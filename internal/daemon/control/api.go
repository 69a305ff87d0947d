// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

const (
	// kickTime is how long the answer to a kick waits for the end of the client's session, which may take 200 ms.
	kickTime = 2 * time.Second

	// cacheTime is how old an answer may be at least, and cacheCosts how many times older than what it took to make: a program that asks all
	// the time costs a twentieth of a processor.
	cacheTime  = 100 * time.Millisecond
	cacheCosts = 20
)

// A versionAnswer is the answer to GET /v1/version.
type versionAnswer struct {
	Version string  `json:"version"`
	PID     int     `json:"pid"`
	Socket  string  `json:"socket"`
	Uptime  float64 `json:"uptime_s"` // seconds since the daemon was started, whatever its image
}

// Clients is the answer to GET /v1/clients.
type Clients struct {
	Format  int             `json:"format"` // status.Format
	Now     time.Time       `json:"now"`
	Clients []status.Client `json:"clients"`
}

// healthAnswer is the answer to GET /v1/health.
type healthAnswer struct {
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

// Upgraded is the answer to POST /v1/upgrade, which the new image gives.
type Upgraded struct {
	From    string         `json:"from"` // versions
	To      string         `json:"to"`
	PID     int            `json:"pid"`
	Gap     float64        `json:"gap_ms"`  // how long no frame was carried, in milliseconds
	Clients map[string]int `json:"clients"` // that were kept, by transport
	Notes   []string       `json:"notes"`   // what did not survive, in sentences
}

// routes are the paths that every daemon has.
func (s *server) routes() map[string]Handler {
	return map[string]Handler{
		"GET /v1/version": s.described(func(st *status.Status) any {
			return versionAnswer{st.Daemon.Version, st.Daemon.PID, st.Daemon.Socket, st.Daemon.Uptime}
		}),
		"GET /v1/status":  s.described(func(st *status.Status) any { return st }),
		"GET /v1/health":  s.described(func(st *status.Status) any { return healthAnswer{st.Format, st.Now, st.Health} }),
		"GET /v1/clients": s.described(func(st *status.Status) any { return Clients{st.Format, st.Now, st.Clients} }),

		"GET /v1/clients/{id}":     s.client,
		"DELETE /v1/clients/{id}":  s.kick,
		"GET /v1/log-level":        s.described(func(st *status.Status) any { return Level{st.Daemon.LogLevel} }),
		"PUT /v1/log-level":        s.setLevel,
		"POST /v1/upgrade":         s.upgrade,
		"POST /v1/upgrade/gateway": s.upgrade,
	}
}

// A cache keeps the last description of the daemon, and has one made at a time.
type cache struct {
	mu     sync.Mutex
	last   status.Status
	good   time.Time         // until then; zero: the next answer is to be new
	bodies map[string][]byte // answers that were made of last, by path
}

// get is a description that is not too old. The caller holds mu.
func (c *cache) get(describe func() status.Status) *status.Status {
	if began := time.Now(); began.After(c.good) {
		c.last, c.bodies = describe(), map[string][]byte{}
		c.good = time.Now().Add(max(cacheTime, cacheCosts*time.Since(began)))
	}
	return &c.last
}

// forget has the next answer be new.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.good = time.Time{}
}

// described answers with a part of the description, which is encoded once.
func (s *server) described(part func(*status.Status) any) Handler {
	return func(_ http.ResponseWriter, r *http.Request) any {
		c := &s.cache
		c.mu.Lock()
		defer c.mu.Unlock()
		st := c.get(s.o.Describe)
		if c.bodies[r.URL.Path] == nil {
			_, c.bodies[r.URL.Path] = encode(part(st))
		}
		return c.bodies[r.URL.Path]
	}
}

// clientID is the number in r's path.
func clientID(r *http.Request) (uint64, *Error) {
	text := r.PathValue("id")
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, badRequest("bad_id", "%q is not a client's number; GET /v1/clients has them", clip(text))
	}
	return id, nil
}

// NoClient is the answer when no client has this number now.
func NoClient(id uint64) *Error {
	return &Error{http.StatusNotFound, "no_client", fmt.Sprintf("there is no client %d now; GET /v1/clients has those that there are", id)}
}

// client is GET /v1/clients/{id}.
func (s *server) client(_ http.ResponseWriter, r *http.Request) any {
	id, e := clientID(r)
	if e != nil {
		return e
	}
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	for _, c := range s.cache.get(s.o.Describe).Clients {
		if c.ID == id {
			return c
		}
	}
	return NoClient(id)
}

// kick is DELETE /v1/clients/{id}.
func (s *server) kick(_ http.ResponseWriter, r *http.Request) any {
	id, e := clientID(r)
	if e == nil {
		e = allowed(r, "disconnect its clients")
	}
	if e != nil {
		return e
	}
	ctx, cancel := context.WithTimeout(r.Context(), kickTime)
	defer cancel()
	err := s.o.Kick(ctx, id, PeerOf(r))
	s.cache.forget()
	if err != nil && ctx.Err() == nil {
		return err
	}
	return kickAnswer{ID: id, Ended: err == nil}
}

// setLevel is PUT /v1/log-level.
func (s *server) setLevel(_ http.ResponseWriter, r *http.Request) any {
	var l Level
	e := allowed(r, "change what it logs")
	if e == nil {
		e = readJSON(r, &l)
	}
	if e != nil {
		return e
	}
	if err := s.o.SetLevel(l.Level, PeerOf(r)); err != nil {
		return badRequest("bad_level", "%v", err)
	}
	s.cache.forget()
	return l
}

// upgrade is POST /v1/upgrade, and /v1/upgrade/gateway. It keeps the connection, for the new image to answer; a Detach does not wait for
// it then.
func (s *server) upgrade(w http.ResponseWriter, r *http.Request) any {
	if e := allowed(r, "upgrade it"); e != nil {
		return e
	}
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	_ = nc.SetDeadline(time.Time{})
	c := connOf(r)
	c.leave()
	s.o.Log.Info("upgrade asked for", c.peer.Args()...)
	kept, _ := c.Conn.(*net.UnixConn)                            // all that is served is
	s.o.Upgrade(c.ctx, kept, path.Base(r.URL.Path) == "gateway") // not the request's context: it is done even if the client goes
	return nil
}
