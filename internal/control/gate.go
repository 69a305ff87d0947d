// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// Limits of connections at once. Root and the daemon's user are not kept out by the others.
const (
	maxConns   = 64
	maxOthers  = 32
	maxPerUser = 16 // of others
)

// acceptPause is how long a failed accept is waited out, such as one for want of descriptors.
const acceptPause = 100 * time.Millisecond

// A gate is a listener that knows its clients, lets only so many in and can be shut for a while.
//
//	open ── pause ──► shut ── resume ──► open
//	any ── Close ──► closed
type gate struct {
	*net.UnixListener

	log *slog.Logger

	mu     sync.Mutex
	shut   chan struct{} // closed by resume; nil while open
	closed chan struct{}
	ended  bool
	users  map[uint32]int // connections of others, by user
	others int
	all    int
	change chan struct{} // closed when a connection ends; nil while nobody waits
	warned bool

	streams map[*Stream]struct{}
}

func newGate(ln *net.UnixListener, log *slog.Logger) *gate {
	return &gate{UnixListener: ln, log: log, closed: make(chan struct{}), users: map[uint32]int{}, streams: map[*Stream]struct{}{}}
}

// A conn is a client's connection.
type conn struct {
	*net.UnixConn

	peer   peercred.Peer
	gate   *gate
	once   sync.Once
	stream *Stream // nil unless it has become one; under gate.mu
}

// Close makes room for another one.
func (c *conn) Close() error {
	c.leave()
	err := c.UnixConn.Close()
	c.gate.leaveStream(c)
	return err
}

// leave makes room for another one. The connection may stay open.
func (c *conn) leave() { c.once.Do(func() { c.gate.leave(c.peer) }) }

// Accept waits for a client that may be served, and for the gate to be open.
func (g *gate) Accept() (net.Conn, error) {
	for {
		if err := g.waitOpen(); err != nil {
			return nil, err
		}
		uc, err := g.AcceptUnix()
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue // shut
		case errors.Is(err, net.ErrClosed):
			return nil, err
		default:
			if err := g.waitOut(err); err != nil {
				return nil, err
			}
			continue
		}
		c := &conn{UnixConn: uc, peer: peercred.Of(uc), gate: g}
		if !g.enter(c.peer) {
			_ = uc.Close()
			continue
		}
		return c, nil
	}
}

// waitOut tells of a failed accept, once, and waits.
func (g *gate) waitOut(err error) error {
	if !g.warned {
		g.warned = true
		g.log.Warn("accepting on the control socket failed, it is tried again", "error", err)
	}
	select {
	case <-time.After(acceptPause):
		return nil
	case <-g.closed:
		return net.ErrClosed
	}
}

// waitOpen waits while the gate is shut.
func (g *gate) waitOpen() error {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return nil
	}
	select {
	case <-shut:
		return nil
	case <-g.closed:
		return net.ErrClosed
	}
}

// enter counts a client in, if there is room.
func (g *gate) enter(p peercred.Peer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all >= maxConns {
		return false
	}
	if !Trusted(p) {
		if g.others >= maxOthers || g.users[p.User()] >= maxPerUser {
			return false
		}
		g.others++
		g.users[p.User()]++
	}
	g.all++
	return true
}

func (g *gate) leave(p peercred.Peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if !Trusted(p) {
		g.others--
		if g.users[p.User()]--; g.users[p.User()] == 0 {
			delete(g.users, p.User())
		}
	}
	g.changed()
}

// changed wakes who waits for a connection to end. It is called under mu.
func (g *gate) changed() {
	if g.change != nil {
		close(g.change)
		g.change = nil
	}
}

// pause shuts the gate and waits until those inside have left, but no longer than most. Streams end then.
func (g *gate) pause(most time.Duration) {
	g.mu.Lock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
	_ = g.SetDeadline(time.Unix(1, 0))
	g.mu.Unlock()
	g.endStreams(most, func() bool { return g.all+len(g.streams) == 0 })
}

// endStreams tells the streams to end, waits until gone reports that they have, but no longer than most, and cuts off the others.
// gone is called under mu.
func (g *gate) endStreams(most time.Duration, gone func() bool) {
	limit := time.NewTimer(most)
	defer limit.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for st := range g.streams {
		st.end()
	}
	for !gone() {
		if g.change == nil {
			g.change = make(chan struct{})
		}
		change := g.change
		g.mu.Unlock()
		late := false
		select {
		case <-change:
		case <-limit.C:
			late = true
		}
		g.mu.Lock()
		if late {
			for st := range g.streams {
				_ = st.conn.UnixConn.Close()
			}
			return
		}
	}
}

// resume opens the gate.
func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.SetDeadline(time.Time{})
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// Close ends Accept.
func (g *gate) Close() error {
	g.mu.Lock()
	if !g.ended {
		g.ended = true
		close(g.closed)
	}
	g.mu.Unlock()
	return g.UnixListener.Close()
}
