// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"context"
	"os"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// idlePause is how long the reader of a lifeline pauses after each read, so that a client that writes on without end costs
// next to nothing.
const idlePause = 10 * time.Millisecond

// hold watches c as the lifeline of a session: what the client still sends is thrown away, and its end calls end with
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
		buf := make([]byte, 1024)
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
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-done
	}
}
