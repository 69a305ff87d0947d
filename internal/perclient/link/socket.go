// SPDX-License-Identifier: Apache-2.0

package link

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const (
	// lastReads bounds what is read from a client whose link ends: it may go on sending.
	lastReads = 64

	// sendPatience is how long a send may go on when the daemon stops. None waits, but where O_NONBLOCK was cleared macOS does
	// what it likes.
	sendPatience = 100 * time.Millisecond

	// After Hold a client is not read for up to holds times holdTime, and if that was not enough heldLen bytes of its stream then.
	holds    = 10
	holdTime = 100 * time.Microsecond
	heldLen  = 16 << 10
)

// Past as a deadline wakes a goroutine that waits for a socket.
var Past = time.Unix(1, 0)

// A socket is what stream and Datagram have in common: the client's socket, the way out to it, and its reader's loop.
type socket struct {
	conn *net.UnixConn
	rc   syscall.RawConn
	fd   int // of conn; writes use it while out is not closed
	out  *Outbox
	src  source

	maxFrame int           // bytes
	shared   bool          // another process may hold this very end
	keeps    bool          // a shared end is left as it is at the stop of the daemon, for the next one
	behind   frame.Bounded // what the client is held for
	slow     bool          // that is behind still
	eof      bool          // the client's end was seen while draining

	shutdown  atomic.Pointer[DrainSchedule]
	failure   atomic.Pointer[error] // of a write, tells why shutdown was set
	detaching atomic.Bool
	closed    atomic.Bool
}

// A source is how a socket is read. All of it is called by the goroutine of Run alone.
type source interface {
	// readOnce reads once, without waiting, and hands on the frames that are whole. again: there is nothing to read now.
	readOnce(fd int, h Handler) (again bool, err error)
	// release gives back what reading has taken, but for the begin of a frame. It is called before the reader waits, and at the end.
	release()
	// discard reads by sched, and reports whether the client has closed its end.
	discard(sched DrainSchedule) (eof bool)
}

// init takes over conn and sets its buffers.
func (s *socket) init(conn *net.UnixConn, src source, kind proto.Transport) (err error) {
	s.conn, s.src = conn, src
	s.rc, s.fd, err = Raw(conn)
	if err == nil {
		proto.SetBuffers(s.fd, kind)
	}
	return err
}

// Raw is conn for system calls that package net does not have. The descriptor is conn's.
func Raw(conn *net.UnixConn) (rc syscall.RawConn, fd int, err error) {
	if rc, err = conn.SyscallConn(); err == nil {
		err = rc.Control(func(n uintptr) { fd = int(n) })
	}
	if err != nil {
		return nil, 0, fmt.Errorf("get descriptor of client socket: %w", err)
	}
	return rc, fd, nil
}

// Run implements Link. But for a client that has closed its end (io.EOF), it reads and discards by a DrainSchedule before it
// returns, for the client not to be blocked by what it has sent.
func (s *socket) Run(h Handler) error {
	err := s.readFrames(h)
	f := s.failure.Load()
	if f != nil && interrupted(err) { // mostly the client has closed, and these are its last words
		_, err = s.read(h, lastReads)
	}
	s.src.release()
	switch {
	case errors.Is(err, io.EOF):
		return err
	case s.detaching.Load() && s.shutdown.Load() == nil && interrupted(err):
		return ErrDetached
	}
	s.Drain()
	switch {
	case f != nil && s.eof:
		return io.EOF // the write failed because the client had gone
	case f != nil:
		return *f
	case s.shutdown.Load() != nil && interrupted(err):
		return ErrShutdown
	}
	return err
}

// readFrames is the read loop. The whole of it runs inside one RawConn.Read, whose callback returns false to wait for the
// next event. The socket is read until nothing is left: the poller reports edges, and an end that arrives together with data
// is reported once.
func (s *socket) readFrames(h Handler) error {
	var err error
	poll := s.rc.Read(func(fd uintptr) bool {
		for again := false; !again; {
			if again, err = s.src.readOnce(int(fd), h); err != nil || s.shutdown.Load() != nil || s.detaching.Load() {
				return true
			}
			s.wait()
		}
		s.src.release()
		return false
	})
	if err == nil {
		err = poll
	}
	return err
}

// wait waits for the client that Hold has named.
func (s *socket) wait() {
	s.slow = false
	if s.behind == nil {
		return
	}
	s.src.release()
	for n := 0; n < holds && s.behind.Full(); n++ {
		time.Sleep(holdTime)
	}
	s.slow, s.behind = s.behind.Full(), nil
}

// read reads most times at most, and hands on what waits from the client; a nil h discards it. again: there is nothing more now.
func (s *socket) read(h Handler, most int) (again bool, err error) {
	closed := s.rc.Control(func(fd uintptr) {
		for n := 0; n < most && !again && err == nil; n++ {
			again, err = s.src.readOnce(int(fd), h)
		}
	})
	return again, cmp.Or(err, closed)
}

// Drain reads and discards what the client sends, by the schedule that Shutdown was given, else by DrainOne. Run calls it;
// the goroutine of a Run that ended by a panic calls it too.
func (s *socket) Drain() {
	sched := DrainOne
	if p := s.shutdown.Load(); p != nil {
		sched = *p
	}
	s.out.Stop()
	faults.Point("link.discard")
	s.eof = s.src.discard(sched)
	s.src.release()
}

// Hold implements Link.
func (s *socket) Hold(behind frame.Bounded) { s.behind = behind }

// Full implements Link.
func (s *socket) Full() bool { return s.out.Full() }

// Fd implements Link.
func (s *socket) Fd() int { return s.fd }

// Deliver implements frame.Sink; see Outbox.Deliver.
func (s *socket) Deliver(b frame.Batch) { s.out.Deliver(b) }

// handOn counts what readOnce has read and gives the frames to h, nil discards them.
func (s *socket) handOn(b frame.Batch, runts, long int, h Handler) {
	if h == nil || b.Len()+runts+long == 0 {
		return
	}
	s.out.Came(b, runts, long)
	if b.Len() > 0 {
		h.Frames(b)
	}
}

// Stats implements Link.
func (s *socket) Stats() Stats { return s.out.Stats() }

// MaxFrame implements frame.Sink.
func (s *socket) MaxFrame() int { return s.maxFrame }

// output is where what is owed goes out.
func (s *socket) output() *Outbox { return s.out }

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
		_ = s.conn.SetReadDeadline(Past)
	}
}

// fail ends the link because a send failed: the client does not read any more.
func (s *socket) fail(err error) {
	s.failure.CompareAndSwap(nil, &err)
	s.end(DrainOne)
}

// Interrupt implements Link.
func (s *socket) Interrupt() {
	s.detaching.Store(true)
	_ = s.conn.SetReadDeadline(Past)
}

// Detach implements Link: it ends what is on its way to the client.
func (s *socket) Detach() State {
	_ = s.conn.SetWriteDeadline(Past) // wakes the drainer
	s.out.Detach()
	_ = s.conn.SetDeadline(time.Time{})
	v := State{Socket: Holding(s.conn), Stats: s.Stats()}
	v.Stats.Queued = 0
	return v
}

// Close ends the link at once; nothing is sent after it returns. Callers let Run return first, since that is what drains the
// client. Another process may hold our end as well, a service manager any: the connection is ended for it too, else the client would
// never learn that it is not served any more. Not so for a shared Datagram at the stop of the daemon, by DrainStop: a process that has
// a copy can hand it to the next daemon then, and the client goes on. A client without such a process has the last copy closed, and
// learns by that.
func (s *socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.out.Stop()
	shut := func() { // ends a send that waits as well; it fails when the client has gone or has done it itself
		_ = s.rc.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	if p := s.shutdown.Load(); s.shared && s.keeps && p != nil && *p == DrainStop && s.failure.Load() == nil {
		defer time.AfterFunc(sendPatience, shut).Stop()
	} else {
		shut()
	}
	_ = s.conn.SetWriteDeadline(Past) // wakes the drainer
	s.out.Close()
	return s.conn.Close()
}

// interrupted reports whether a read loop that ended with err ended because it was told to.
func interrupted(err error) bool { return err == nil || os.IsTimeout(err) }
