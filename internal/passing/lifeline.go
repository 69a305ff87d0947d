// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"os"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// idlePause is how long the reader of a lifeline pauses after each read, so that a client that writes on without end costs
// next to nothing.
const idlePause = 5 * time.Millisecond

// lifelineLen is how much is read from a lifeline at once, in bytes.
const lifelineLen = 512

// outlive watches m's connection as the lifeline of its session, until that has ended.
func (m *member) outlive() {
	defer m.closeTheirs()
	m.conn.outlive(m.session)
}

// outlive watches c as the lifeline of x, until x has ended: what the client still sends is thrown away, and its end ends x.
func (c *conn) outlive(x session) {
	_ = c.SetReadDeadline(time.Time{}) // x's end sets one: see client
	buf := make([]byte, lifelineLen)
	for {
		select {
		case <-x.Done():
			return
		default:
		}
		_, err := proto.Discard(c.UnixConn, buf)
		switch {
		case err == nil:
			time.Sleep(idlePause)
			continue
		case c.srv.standing(x.Done()): // an end is seen again after that
			_ = c.SetReadDeadline(time.Time{})
			continue
		case !os.IsTimeout(err): // else it has ended, or Stop was just about to interrupt the request
			x.End(errLifeline)
		}
		<-x.Done()
		return
	}
}

// hold watches c as the lifeline of a session that begins: what the client still sends is thrown away, and its end calls end with
// errLifeline. The returned function ends the watch.
func (c *conn) hold(end context.CancelCauseFunc) (release func()) {
	c.calm() // the session's end ends it, also at a stop
	_ = c.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				c.srv.broken("watching a lifeline", r)
				end(errLifeline)
			}
		}()
		faults.Point("passing.lifeline")
		buf := make([]byte, lifelineLen)
		for {
			if _, err := proto.Discard(c.UnixConn, buf); err != nil {
				if !os.IsTimeout(err) {
					end(errLifeline)
				}
				return
			}
			time.Sleep(idlePause)
		}
	}()
	return func() {
		_ = c.SetReadDeadline(past)
		<-done
	}
}
