// SPDX-License-Identifier: Apache-2.0

package link

import (
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// past as a deadline wakes a goroutine that waits for a socket.
var past = time.Unix(1, 0)

// A socket is what stream and Datagram have in common: the client's socket, the way out to it, and how its reader is ended.
type socket struct {
	conn *net.UnixConn
	rc   syscall.RawConn
	fd   int // of conn; writes use it while out is not closed
	out  *Outbox

	shutdown  atomic.Pointer[DrainSchedule]
	failure   atomic.Pointer[error] // of a write, tells why shutdown was set
	detaching atomic.Bool
	closed    atomic.Bool
}

// Fd is the number of the client's descriptor, for logs only.
func (s *socket) Fd() int { return s.fd }

// Deliver implements frame.Sink; see Outbox.Deliver.
func (s *socket) Deliver(b frame.Batch) { s.out.Deliver(b) }

// Shutdown makes Run discard what the client still sends, a stream by the times of sched, and return ErrShutdown. Frames for
// the client are dropped from now on; what is queued still goes out meanwhile. A second call with a longer schedule than the
// first changes nothing.
func (s *socket) Shutdown(sched DrainSchedule) {
	s.out.Stop()
	s.end(sched)
}

func (s *socket) end(sched DrainSchedule) {
	if s.shutdown.CompareAndSwap(nil, &sched) {
		// A deadline in the past wakes a reader that waits; one that reads looks at shutdown after each read.
		_ = s.conn.SetReadDeadline(past)
	}
}

// Interrupt implements Link.
func (s *socket) Interrupt() {
	s.detaching.Store(true)
	_ = s.conn.SetReadDeadline(past)
}

// detach ends what is on its way to the client, and leaves its socket to what it returns.
func (s *socket) detach() State {
	_ = s.conn.SetWriteDeadline(past) // wakes the drainer
	s.out.Detach()
	_ = s.conn.SetDeadline(time.Time{})
	return State{Socket: Holding(s.conn)}
}

// hangUp ends the way to the client, and the connection.
func (s *socket) hangUp() error {
	_ = s.conn.SetWriteDeadline(past) // wakes the drainer
	s.out.Close()
	return s.conn.Close()
}

// detached reports whether err, with which the read loop ended, is due to Interrupt and nothing else.
func (s *socket) detached(err error) bool {
	return s.detaching.Load() && s.shutdown.Load() == nil && interrupted(err)
}

// interrupted reports whether a read loop that ended with err ended because it was told to.
func interrupted(err error) bool { return err == nil || os.IsTimeout(err) }
