// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
)

// A stream is a client on a stream socket, speaking the format of package frame. It is a frame.Sink.
//
//	open --Shutdown or a lost framing--> draining: input is discarded, output dropped --Run returns--> Close --> closed
//
// Run belongs to one goroutine. Deliver and the other methods may be called from any.
type stream struct {
	socket
	rd     reader
	pipe   streamPipe
	shared bool // see StreamOptions
}

// StreamOptions set up a stream.
type StreamOptions struct {
	QueueSize int // bytes; 0 = DefaultQueueSize

	// Shared: another process may hold this very end, so it may clear O_NONBLOCK or shut the socket down at any time. That
	// costs nobody else anything, and Close shuts the connection down, since closing one of several copies does not end it.
	Shared bool
}

// NewStream takes over conn, which must be an unblocked stream socket. Its buffers are enlarged if the system allows.
func NewStream(conn *net.UnixConn, o StreamOptions) (*stream, error) {
	rc, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("get descriptor of client socket: %w", err)
	}
	s := &stream{socket: socket{conn: conn, rc: rc}, shared: o.Shared}
	err = rc.Control(func(fd uintptr) {
		s.fd = int(fd)
		enlarge(s.fd, unix.SO_SNDBUF)
		enlarge(s.fd, unix.SO_RCVBUF)
	})
	if err != nil {
		return nil, fmt.Errorf("get descriptor of client socket: %w", err)
	}
	s.pipe.fd, s.pipe.rc = s.fd, rc
	s.out = NewOutbox(&s.pipe, o.QueueSize, s.fail)
	s.out.cut, s.out.queueAll, s.out.patience = &s.pipe, o.Shared && sendMayWait, 0
	return s, nil
}

// enlarge asks for a socket buffer of sockBufLen. A refusal costs speed only, so it is ignored.
func enlarge(fd, option int) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err == nil && n >= 2*sockBufLen {
		return
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, sockBufLen)
}

// MaxFrame implements frame.Sink.
func (s *stream) MaxFrame() int { return frame.MaxStreamLen }

// Stats are the counters so far.
func (s *stream) Stats() Stats {
	st := Stats{ToNetFrames: s.rd.frames.Load(), ToNetBytes: s.rd.bytes.Load(), DropRunt: s.rd.runts.Load()}
	s.out.Add(&st)
	return st
}

// Gone reports whether the client has already closed its end, without waiting and without taking anything from its input.
func (s *stream) Gone() bool {
	gone := false
	closed := s.rc.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err == unix.ECONNRESET // it left frames unread
	})
	return gone || closed != nil
}

// fail shuts the link down because a write failed: the client does not read any more.
func (s *stream) fail(err error) {
	err = fmt.Errorf("write to client: %w", err)
	s.failure.CompareAndSwap(nil, &err)
	s.end(DrainOne)
}

// Close ends the link at once. Run and the drainer have ended, or end, and no write happens after it returns. Callers let
// Run return first, since that is what drains the client.
func (s *stream) Close() error {
	s.closed.Store(true)
	s.out.Stop()
	if s.shared {
		// It fails when the client has gone or has shut it down itself.
		_ = s.rc.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // ends a write that waits
	}
	return s.hangUp()
}
