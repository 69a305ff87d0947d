// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// Limits of connections at once, to one socket. Root and the daemon's user are not kept out by the others once they are accepted; that
// they are, whatever waits before them, is what they have a socket of their own for.
const (
	maxConns   = 64
	maxOthers  = 32
	maxPerUser = 16 // of others
)

// Whoever finds no room takes the place of the oldest connection of his kind, if that has been without a request for idleTime or
// has been there for busyTime: of a program that asks and reads the answer neither is true.
const (
	idleTime = 250 * time.Millisecond
	busyTime = 3 * time.Second
)

// acceptBurst connections are accepted at once, and then one each acceptEvery: the rest waits in the queue. Thousands that come all
// the time would else take a processor away from the frames.
const (
	acceptBurst = 200
	acceptEvery = time.Millisecond
)

// full is the answer to who does not find a place. It fits into an empty socket, so that nobody waits for him.
var full = func() []byte {
	const body = `{"error":{"code":"busy","text":"too many ask at the control socket at once: try again"}}` + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Connection: close\r\nRetry-After: 1\r\n\r\n%s", len(body), body)
}()

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
	conns  map[*conn]struct{}
	users  map[uint32]int // of them those of others, by user
	others int
	taking bool          // Accept may take a connection, though the gate has been shut meanwhile
	change chan struct{} // closed when a connection ends, or taking does; nil while nobody waits
	warned bool

	streams map[*Stream]struct{}
	over    context.Context // done when the server ends; set before it serves

	debt  time.Duration // of accepting, at the time paced; used by Accept
	paced time.Time
}

func newGate(ln *net.UnixListener, log *slog.Logger) *gate {
	return &gate{UnixListener: ln, log: log, closed: make(chan struct{}), conns: map[*conn]struct{}{}, users: map[uint32]int{}, streams: map[*Stream]struct{}{}}
}

// A conn is a client's connection.
type conn struct {
	*net.UnixConn

	peer    peercred.Peer
	gate    *gate
	since   time.Time   // of accept
	serving atomic.Bool // its request has come
	stream  *Stream     // nil unless it has become one; under gate.mu
}

// Close makes room for another one.
func (c *conn) Close() error {
	c.leave()
	err := c.UnixConn.Close()
	c.gate.leaveStream(c)
	return err
}

// leave makes room for another one. The connection may stay open.
func (c *conn) leave() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.gate.leave(c)
}

// Accept waits for a client that may be served, and for the gate to be open.
func (g *gate) Accept() (net.Conn, error) {
	for {
		if err := g.pace(); err != nil {
			return nil, err
		}
		if err := g.waitOpen(); err != nil {
			return nil, err
		}
		c, err := g.take()
		switch {
		case c != nil:
			return c, nil
		case err == nil: // refused
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue // shut
		case errors.Is(err, net.ErrClosed):
			return nil, err
		default:
			if err := g.waitOut(err); err != nil {
				return nil, err
			}
		}
	}
}

// take accepts a connection, nil if there is no room for it. It follows waitOpen.
func (g *gate) take() (*conn, error) {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.taking = false
		g.changed()
	}()
	uc, err := g.AcceptUnix()
	if err != nil {
		return nil, err
	}
	c := &conn{UnixConn: uc, peer: peercred.Of(uc), gate: g, since: time.Now()}
	if !g.enter(c) {
		_, _ = uc.Write(full)
		_ = uc.Close()
		return nil, nil
	}
	return c, nil
}

// pace waits if many were accepted lately.
func (g *gate) pace() error {
	now := time.Now()
	g.debt = max(0, g.debt-now.Sub(g.paced)) + acceptEvery
	g.paced = now
	wait := g.debt - acceptBurst*acceptEvery
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(wait):
		return nil
	case <-g.closed:
		return net.ErrClosed
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

// waitOpen waits while the gate is shut. Then a connection may be taken.
func (g *gate) waitOpen() error {
	for {
		g.mu.Lock()
		shut := g.shut
		g.taking = shut == nil
		g.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-g.closed:
			return net.ErrClosed
		}
	}
}

// enter counts a client in, if there is room or some can be made.
func (g *gate) enter(c *conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	other := !Trusted(c.peer)
	for !g.room(c.peer, other) {
		if !g.makeRoom(c, other) {
			return false
		}
	}
	if other {
		g.others++
		g.users[c.peer.User()]++
	}
	g.conns[c] = struct{}{}
	return true
}

// room reports whether there is some for p. It is called under mu, like what follows.
func (g *gate) room(p peercred.Peer, other bool) bool {
	return len(g.conns) < maxConns && (!other || g.others < maxOthers && g.users[p.User()] < maxPerUser)
}

// makeRoom closes the oldest connection whose place c may take.
func (g *gate) makeRoom(c *conn, other bool) bool {
	ofUser := other && g.users[c.peer.User()] >= maxPerUser
	var oldest *conn
	for x := range g.conns {
		if ofUser && x.peer.User() != c.peer.User() || other && Trusted(x.peer) || !x.overdue(c.since) {
			continue
		}
		if oldest == nil || x.since.Before(oldest.since) {
			oldest = x
		}
	}
	if oldest == nil {
		return false
	}
	_ = oldest.UnixConn.Close()
	g.leave(oldest)
	return true
}

// overdue reports whether c may have to make room.
func (c *conn) overdue(now time.Time) bool {
	if c.serving.Load() {
		return now.Sub(c.since) > busyTime
	}
	return now.Sub(c.since) > idleTime
}

// leave counts c out, once.
func (g *gate) leave(c *conn) {
	if _, ok := g.conns[c]; !ok {
		return
	}
	delete(g.conns, c)
	if !Trusted(c.peer) {
		g.others--
		if g.users[c.peer.User()]--; g.users[c.peer.User()] == 0 {
			delete(g.users, c.peer.User())
		}
	}
	g.changed()
}

// changed wakes who waits for a connection to end.
func (g *gate) changed() {
	if g.change != nil {
		close(g.change)
		g.change = nil
	}
}

// pause shuts the gate and waits until those inside have left, but no longer than most. Streams end then. Whoever connects after it
// is in the kernel's queue: without a look at taking, Accept could just be about to take him, for an image that is about to go.
func (g *gate) pause(most time.Duration) {
	g.mu.Lock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
	_ = g.SetDeadline(time.Unix(1, 0))
	g.mu.Unlock()
	g.endStreams(most, func() bool { return !g.taking && len(g.conns)+len(g.streams) == 0 })
}

// pauseSteps is how many times who waits has to be scheduled before his time is over. A process that did not run for a while has
// its clock run on, and those who are waited for have had no time at all.
const pauseSteps = 10

// endStreams tells the streams to end, waits until gone reports that they have, but no longer than most, and cuts off the others.
// gone is called under mu.
func (g *gate) endStreams(most time.Duration, gone func() bool) {
	step := time.NewTimer(most / pauseSteps)
	defer step.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for st := range g.streams {
		st.end()
	}
	for steps := 0; !gone(); {
		if g.change == nil {
			g.change = make(chan struct{})
		}
		change := g.change
		g.mu.Unlock()
		select {
		case <-change:
		case <-step.C:
			steps++
			step.Reset(most / pauseSteps)
		}
		g.mu.Lock()
		if steps == pauseSteps {
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
