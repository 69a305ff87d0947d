// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// maxConns is how many connections there are at once.
const maxConns = 8

// acceptPause is how long a failed accept is waited out, such as one for want of descriptors.
const acceptPause = 100 * time.Millisecond

// A gate is a listener that has so many connections and no more. When another one comes, the oldest that has not asked anything has to
// go: whoever asks at once is served, also beside many that do not.
type gate struct {
	*net.TCPListener

	once   sync.Once
	closed chan struct{}

	mu    sync.Mutex
	conns []*conn       // oldest first
	shut  chan struct{} // closed by resume; nil while open
	empty chan struct{} // closed when nobody is inside, nor on his way; nil while nobody waits

	taking bool // Accept may take a connection, though the gate has been shut meanwhile
}

func newGate(ln *net.TCPListener) *gate {
	return &gate{TCPListener: ln, closed: make(chan struct{})}
}

// A conn is a client's connection.
type conn struct {
	*net.TCPConn

	gate  *gate
	asked bool // its request has come; under gate.mu
	gone  bool // likewise
}

// Accept implements net.Listener.
func (g *gate) Accept() (net.Conn, error) {
	for {
		if !g.begin() {
			return nil, net.ErrClosed
		}
		c, err := g.take()
		switch {
		case c != nil:
			return c, nil
		case err == nil: // no place
		case errors.Is(err, net.ErrClosed) || !g.waitOut():
			return nil, net.ErrClosed
		}
	}
}

// begin waits until the gate is open, and notes that a connection may be taken. It reports false once it is closed.
func (g *gate) begin() bool {
	for {
		g.mu.Lock()
		g.taking = g.shut == nil
		open := g.taking
		g.mu.Unlock()
		if open {
			return true
		}
		if !g.waitOut() {
			return false
		}
	}
}

// take accepts a connection, nil if there is no place for it.
func (g *gate) take() (*conn, error) {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.taking = false
		g.left()
	}()
	tc, err := g.AcceptTCP()
	if err != nil {
		return nil, err
	}
	c := g.enter(tc)
	if c == nil {
		_ = tc.Close()
	}
	return c, nil
}

// left tells who waits that nobody is inside. It is called under mu.
func (g *gate) left() {
	if len(g.conns) == 0 && !g.taking && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

// waitOut waits until the gate is open, or for a moment if it is, because accepting failed. It reports false once it is closed.
func (g *gate) waitOut() bool {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	var late <-chan time.Time
	if shut == nil {
		late = time.After(acceptPause)
	}
	select {
	case <-shut:
	case <-late:
	case <-g.closed:
		return false
	}
	return true
}

// pause leaves those who come from here on in the kernel's queue, and waits until nobody is left, but no longer than most.
func (g *gate) pause(most time.Duration) {
	g.mu.Lock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
	_ = g.SetDeadline(time.Unix(1, 0))
	empty := make(chan struct{})
	g.empty = empty
	g.left()
	g.mu.Unlock()
	// In steps: a process that did not run for a while has its clock run on, and nobody inside has been served meanwhile.
	const steps = 10
	for left := steps; left > 0; left-- {
		select {
		case <-empty:
			left = 0
		case <-time.After(most / steps):
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.empty = nil
}

// resume opens the gate again.
func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.SetDeadline(time.Time{})
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// enter counts a connection in, nil if all others have asked and wait for their answers.
func (g *gate) enter(tc *net.TCPConn) *conn {
	c := &conn{TCPConn: tc, gate: g}
	g.mu.Lock()
	var silent *conn
	if len(g.conns) >= maxConns {
		i := slices.IndexFunc(g.conns, func(c *conn) bool { return !c.asked })
		if i < 0 {
			g.mu.Unlock()
			return nil
		}
		silent = g.conns[i]
		silent.gone = true
		g.conns = slices.Delete(g.conns, i, i+1)
	}
	g.conns = append(g.conns, c)
	g.mu.Unlock()
	if silent != nil {
		_ = silent.TCPConn.Close()
	}
	return c
}

// ask notes that the request has come; false if the connection had to go just before.
func (c *conn) ask() bool {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.asked = true
	return !c.gone
}

// Close makes room for another one.
func (c *conn) Close() error {
	c.gate.mu.Lock()
	c.gate.conns = slices.DeleteFunc(c.gate.conns, func(x *conn) bool { return x == c })
	c.gate.left()
	c.gate.mu.Unlock()
	return c.TCPConn.Close()
}

// Close ends Accept.
func (g *gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.TCPListener.Close()
}
