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

// outlive watches m's connection as the lifeline of its session, until that has ended: what the client still sends is thrown
// away, and its end ends the session. What happens during a pause is seen after it.
func (m *member) outlive() {
	defer m.closeTheirs()
	c, x := m.conn, m.session
	buf := make([]byte, lifelineLen)
	for c.srv.arms(m) {
		_, err := proto.Discard(c.UnixConn, buf)
		switch {
		case err == nil:
			time.Sleep(idlePause)
		case !os.IsTimeout(err): // else woken by a pause, by the request's end at a stop, or by the session's end
			x.End(errLifeline)
		}
	}
	<-x.Done()
}

// arms takes the deadline from m's lifeline that woke its watch, after a pause if there is one. It reports false once m's session
// has ended.
func (s *Server) arms(m *member) bool {
	for s.standing(m.session.Done()) {
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, served := s.members[m]; !served {
		return false // before its session's end sets the deadline, see client
	}
	if s.pausedNow() == nil {
		_ = m.conn.SetReadDeadline(time.Time{})
	}
	return true
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
