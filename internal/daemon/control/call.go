// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// writeTime is how long the answer to a call may take to write. It is small, so only a client that does not read takes any.
const writeTime = 2 * time.Second

// A Call is a request for an upgrade that has not been answered. It may be answered by the next image. One of its answers
// ends it; further ones do nothing. Its methods may be called on nil, and do nothing then: an upgrade may have been asked
// for in another way.
type Call struct {
	// Gateway: the network's gateway shall become the new program as well, and its connections end.
	Gateway bool

	peer peercred.Peer

	// over is called before the answer is written: who has it may ask again.
	over func()

	mu   sync.Mutex
	conn *net.UnixConn // nil when it is answered
	end  io.Closer     // closes conn
}

// A SavedCall is a Call on its way to the next image.
type SavedCall struct {
	FD   int           `json:"fd"` // -1: there is none
	Peer peercred.Peer `json:"peer"`
}

// Save notes what the next image needs to answer.
func (c *Call) Save(o *handover.Out) (SavedCall, error) {
	if c == nil {
		return SavedCall{FD: -1}, nil
	}
	s := SavedCall{FD: -1, Peer: c.peer}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return s, nil
	}
	var err error
	if s.FD, err = o.Conn(c.conn); err != nil {
		return SavedCall{}, fmt.Errorf("hand over the connection of who asked for the upgrade: %w", err)
	}
	return s, nil
}

// RestoreCall takes a call over.
func RestoreCall(in *handover.In, s SavedCall) (*Call, error) {
	if s.FD < 0 {
		return nil, nil
	}
	uc, err := in.UnixConn(s.FD)
	if err != nil {
		return nil, fmt.Errorf("take over the connection of who asked for the upgrade: %w", err)
	}
	return &Call{peer: s.Peer, over: func() {}, conn: uc, end: uc}, nil
}

// Continue has s refuse further upgrades until c, which another image was asked for, is answered. It is called before Run.
func (s *Server) Continue(c *Call) {
	if c != nil && s.upgrading.CompareAndSwap(false, true) {
		c.over = sync.OnceFunc(func() { s.upgrading.Store(false) })
	}
}

// Answer says that it is done.
func (c *Call) Answer(v any) { c.answer(http.StatusOK, v) }

// Refuse says why it is not done. code is for programs, text for people.
func (c *Call) Refuse(status int, code, text string) {
	c.answer(status, errorBody{Error{code, text}})
}

func (c *Call) answer(status int, v any) {
	if c == nil {
		return
	}
	c.mu.Lock()
	conn, end := c.conn, c.end
	c.conn = nil
	c.mu.Unlock()
	if conn == nil {
		return
	}
	defer func() { _ = end.Close() }()
	c.over()
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","text":"the answer cannot be written"}}`)
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		status, http.StatusText(status), len(b)+1)
	_ = conn.SetDeadline(time.Now().Add(writeTime))
	_, _ = conn.Write(append([]byte(head), append(b, '\n')...))
}

// upgrade is POST /v1/upgrade, and /v1/upgrade/gateway.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	if !allowed(w, r, "upgrade it") {
		return
	}
	if !s.upgrading.CompareAndSwap(false, true) {
		WriteError(w, http.StatusConflict, "busy", "an upgrade is under way: wait for its end")
		return
	}
	s.calls.Add(1)
	defer s.calls.Done()
	over := sync.OnceFunc(func() { s.upgrading.Store(false) })
	defer over()
	c := take(w, over)
	if c == nil {
		WriteError(w, http.StatusInternalServerError, "internal", "the connection cannot be kept")
		return
	}
	defer c.Refuse(http.StatusInternalServerError, "internal", "the upgrade ended without a reason; the daemon goes on")
	c.Gateway = path.Base(r.URL.Path) == "gateway"
	s.o.Log.Info("upgrade asked for", c.peer.Args()...)
	s.o.Upgrade(s.http.ctx, c) // not the request's context: it is done even if the client goes
}

// take gets the connection from the HTTP server, nil if that is not possible. A Detach does not wait for it then.
func take(w http.ResponseWriter, over func()) *Call {
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	c, ours := nc.(*conn)
	if !ours || nc.SetDeadline(time.Time{}) != nil {
		_ = nc.Close()
		return nil
	}
	c.leave()
	uc, _ := c.Conn.(*net.UnixConn) // all that is served is
	return &Call{peer: c.peer, over: over, conn: uc, end: nc}
}
