// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

const (
	// lastBatches bounds what is read from a client whose link ends: it may go on sending.
	lastBatches = 64

	// sendPatience is how long a send may go on when the daemon stops. None waits, but where O_NONBLOCK was cleared macOS does
	// what it likes.
	sendPatience = 100 * time.Millisecond
)

// A Datagram is a client on a connected datagram socket, one frame in each datagram.
//
// Linux does not tell when the other end of a pair has closed: only sending fails then. An error that says that the other
// end is gone ends Run with io.EOF, and an owner that learns of it in another way calls Shutdown. An empty datagram is no
// end. vfkit's hello, a datagram of the four bytes VFKT, is dropped and not counted, since it is no error.
//
// Run belongs to one goroutine. Deliver and the other methods may be called from any.
type Datagram struct {
	socket
	maxFrame int
	shared   bool
	named    bool         // frames of others than from are dropped
	from     []byte       // the client's path
	closing  func() error // closes it, once
	toNet    tallies
}

// tallies count what came from the client.
type tallies struct{ frames, bytes, runts, long, foreign atomic.Uint64 }

// DatagramOptions set up a Datagram.
type DatagramOptions struct {
	QueueSize int  // bytes; 0 = DefaultQueueSize
	MaxFrame  int  // longest frame for the client in bytes; 0 = mmsg.MaxLen
	Shared    bool // another process may hold this very end and change its flags, or what it is connected to

	// As is the user in whose name frames are sent, nil for the daemon's. Whoever holds this very end as well may connect it
	// to another socket, such as that of a service, which would take frames for messages of the daemon's user.
	As *User
}

// A User is a user with a group.
type User struct{ UID, GID uint32 }

// newDatagram takes over conn, which must be a connected datagram socket. Its buffers are set.
func newDatagram(conn *net.UnixConn, o DatagramOptions) (*Datagram, error) {
	if o.MaxFrame == 0 {
		o.MaxFrame = mmsg.MaxLen
	}
	rc, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("get descriptor of client socket: %w", err)
	}
	d := &Datagram{socket: socket{conn: conn, rc: rc}, maxFrame: min(o.MaxFrame, mmsg.MaxLen), shared: o.Shared}
	d.closing = sync.OnceValue(d.closeOnce)
	err = rc.Control(func(fd uintptr) {
		d.fd = int(fd)
		setDatagramBuffers(d.fd)
	})
	if err != nil {
		return nil, fmt.Errorf("get descriptor of client socket: %w", err)
	}
	sender := mmsg.NewSender()
	if o.As != nil {
		_ = sender.As(o.As.UID, o.As.GID) // where the system has that, and allows it
	}
	d.out = NewOutbox(&datagramPipe{fd: d.fd, rc: rc, sender: sender}, o.QueueSize, d.fail)
	d.out.queueAll = o.Shared && sendMayWait
	return d, nil
}

// MaxFrame implements frame.Sink.
func (d *Datagram) MaxFrame() int { return d.maxFrame }

// Stats are the counters so far.
func (d *Datagram) Stats() Stats {
	st := Stats{
		ToNetFrames: d.toNet.frames.Load(), ToNetBytes: d.toNet.bytes.Load(),
		DropRunt: d.toNet.runts.Load(), DropLong: d.toNet.long.Load(), DropForeign: d.toNet.foreign.Load(),
	}
	d.out.Add(&st)
	return st
}

// Gone reports whether the client is known to have left, without waiting. On Linux that is known only once a frame could
// not be sent.
func (d *Datagram) Gone() bool {
	if d.closed.Load() || d.failure.Load() != nil {
		return true
	}
	gone := false
	err := d.rc.Control(func(fd uintptr) {
		_, err := unix.Getpeername(int(fd))
		gone = isGone(err)
	})
	return gone || err != nil
}

// Check ends the link if the client is known to have left.
func (d *Datagram) Check() {
	if d.Gone() {
		d.fail(unix.ECONNREFUSED)
	}
}

// isGone reports whether err says that the other end of a socket does not exist any more, or takes nothing. macOS tells ECONNRESET
// once, to the reader too, and then EDESTADDRREQ to each send; EINVAL is its EPIPE of datagrams (sosendcheck in XNU's
// bsd/kern/uipc_socket.c, sbappendaddr in uipc_socket2.c).
func isGone(err error) bool {
	errno, _ := errors.AsType[unix.Errno](err)
	switch errno {
	case unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, unix.ENOTCONN, unix.EDESTADDRREQ, unix.EINVAL:
		return true
	}
	return false
}

// fail ends the link because a send failed.
func (d *Datagram) fail(err error) {
	if isGone(err) {
		err = io.EOF
	} else {
		err = fmt.Errorf("send to client: %w", err)
	}
	d.failure.CompareAndSwap(nil, &err)
	d.end(DrainOne)
}

// Close ends the link at once; nothing is sent after it returns. Callers let Run return first. Where another process holds
// our end as well, the connection is ended for it too: else the client would never learn that nobody serves it any more. Not so
// at the stop of the daemon, by DrainStop: whoever has a copy can hand it to the next daemon then, and the client goes on. A
// client without such a process has the last copy closed, and learns by that.
func (d *Datagram) Close() error { return d.closing() }

func (d *Datagram) closeOnce() error {
	d.closed.Store(true)
	d.out.Stop()
	if d.shared {
		shut := func() { // ends a send that waits as well
			_ = d.rc.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
		}
		if s := d.shutdown.Load(); s != nil && *s == DrainStop && d.failure.Load() == nil {
			defer time.AfterFunc(sendPatience, shut).Stop()
		} else {
			shut()
		}
	}
	return d.hangUp()
}

// Run hands the client's frames to h until the client is known to have gone (io.EOF), its socket fails, or Shutdown is
// called (ErrShutdown). What still waits then is read and discarded, for the client not to be blocked by it.
func (d *Datagram) Run(h Handler) error {
	_ = d.rc.Control(func(fd uintptr) { d.from, d.named = onlySender(int(fd)) }) // it may have been connected since
	err := d.readFrames(h)
	switch f := d.failure.Load(); {
	case f != nil && interrupted(err):
		d.rest(h)
		return *f
	case d.detached(err):
		return ErrDetached
	case err == nil, os.IsTimeout(err) && d.shutdown.Load() != nil:
		err = ErrShutdown
	}
	d.Drain()
	return err
}

// Drain reads and discards what waits from the client. Run calls it; the goroutine of a Run that ended by a panic calls it
// too.
func (d *Datagram) Drain() {
	d.out.Stop()
	d.rest(nil)
}

// A datagramPipe is a pipe into a connected datagram socket.
type datagramPipe struct {
	fd     int
	rc     syscall.RawConn
	sender *mmsg.Sender
}

// Send implements pipe.
func (p *datagramPipe) Send(b frame.Batch) (int, error) { return p.sender.Send(p.fd, nil, b) }
