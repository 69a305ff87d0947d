// SPDX-License-Identifier: Apache-2.0

package perclient

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const (
	// idlePause is how long the reader of a lifeline pauses after each read, so that a client that writes on without end costs
	// next to nothing.
	idlePause = 5 * time.Millisecond
	// lifelineLen is how much is read from a lifeline at once, in bytes.
	lifelineLen = 512

	// sweepEvery is the distance of looks at clients of whose end the system does not tell.
	sweepEvery = 3 * time.Second
	// keepTime is how long the client's end of a pair stays open here for a client that took the answer and sends nothing.
	keepTime = 10 * time.Second
)

// errLifeline is why a session ends whose client has closed its lifeline.
var errLifeline = errors.New("attach connection closed")

// openLifeline is the client's lifeline, nil if it has none. It is called before anything else of the session runs.
func (c *Session) openLifeline() *net.UnixConn {
	if c.client.Lifeline.IsNone() {
		return nil
	}
	conn, err := c.client.Lifeline.Conn()
	if err != nil { // it is closed by now: the number may be another client's
		c.client.Lifeline = link.Descriptor{}
		c.End(err)
		return nil
	}
	c.client.Lifeline = link.Holding(conn)
	return conn
}

// watchLifeline ends the session when its lifeline ends. What the client sends there is thrown away.
func (c *Session) watchLifeline(conn *net.UnixConn) {
	faults.Point("perclient.lifeline")
	_ = conn.SetReadDeadline(time.Time{})
	defer context.AfterFunc(c.ctx, func() { _ = conn.SetReadDeadline(link.Past) })()
	buf := make([]byte, lifelineLen)
	for {
		switch _, err := proto.Discard(conn, buf); {
		case err == nil:
			if !sleep(c.ctx, idlePause) {
				return
			}
		case os.IsTimeout(err): // the session has ended, or is detached
			return
		default:
			c.End(errLifeline)
			return
		}
	}
}

// A checker is a link of whose client's end no event tells.
type checker interface {
	// Check looks whether the client is still there; if it is not, the link's Run ends.
	Check()
}

// needsLook reports whether there is something to look after.
func (c *Session) needsLook() bool {
	c.telling.Lock()
	defer c.telling.Unlock()
	_, ok := c.link.(checker)
	return ok || !c.client.Theirs.IsNone()
}

// lookAfter looks at the client from time to time, as long as that is needed: at the same moments as at all others, so that the
// process wakes up once for them.
func (c *Session) lookAfter() {
	for c.needsLook() && sleep(c.ctx, sweepEvery-time.Duration(time.Now().UnixNano())%sweepEvery) {
		c.check()
	}
}

func (c *Session) check() {
	faults.In("perclient.sweep", []byte(c.client.Path))
	c.closeTheirs()
	if l, ok := c.link.(checker); ok {
		l.Check()
	}
}

// Told notes that the client has been sent its end of the pair.
func (c *Session) Told() {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.letGo = time.Now().Add(keepTime)
}

// closeTheirs closes the client's end of the pair when the client is known to have it: it has sent a frame, or had keepTime to take
// the answer. Until then the end must not be in a message alone: XNU takes a socket for lost of which nothing but a message in a
// queue is left, and shuts it down when any unix socket of the system is freed (unp_gc in bsd/kern/uipc_usrreq.c).
func (c *Session) closeTheirs() {
	sent := c.link.Stats().ToNetFrames > 0
	c.telling.Lock()
	defer c.telling.Unlock()
	if c.client.Theirs.IsNone() || c.letGo.IsZero() || !sent && time.Now().Before(c.letGo) {
		return
	}
	c.client.Theirs.Close()
	c.client.Theirs = link.Descriptor{}
}
