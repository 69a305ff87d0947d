// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
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
	named    bool           // frames of others than from are dropped
	from     []byte         // the client's path
	looked   bool           // from and named are known
	receiver *mmsg.Receiver // while there is something to read
}

// DatagramOptions set up a Datagram.
type DatagramOptions struct {
	QueueSize int  // bytes; 0 = DefaultQueueSize
	Shared    bool // another process may hold this very end and change its flags, or what it is connected to

	// As is the user in whose name frames are sent, nil for the daemon's. A process that holds this very end as well may connect it
	// to another socket, such as that of a service, which would take frames for messages of the daemon's user.
	As *User
}

// A User is a user with a group.
type User struct{ UID, GID uint32 }

// newDatagram takes over conn, which must be a connected datagram socket. Its buffers are set.
func newDatagram(conn *net.UnixConn, o DatagramOptions) (*Datagram, error) {
	d := &Datagram{socket: socket{maxFrame: mmsg.MaxLen, shared: o.Shared, keeps: true}}
	if err := d.init(conn, d, proto.Datagram); err != nil {
		return nil, err
	}
	sender := mmsg.NewSender()
	if o.As != nil {
		_ = sender.As(o.As.UID, o.As.GID) // where the system has that, and allows it
	}
	d.out = NewOutbox(&datagramPipe{fd: d.fd, rc: d.rc, sender: sender}, o.QueueSize, d.failed)
	d.out.queueAll = o.Shared && sendMayWait
	return d, nil
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
		gone = IsGone(err)
	})
	return gone || err != nil
}

// Check ends the link if the client is known to have left.
func (d *Datagram) Check() {
	if d.Gone() {
		d.fail(io.EOF)
	}
}

// IsGone reports whether err says that the other end of a socket does not exist any more, or takes nothing. macOS tells ECONNRESET
// once, to the reader too, and then EDESTADDRREQ to each send; EINVAL is its EPIPE of datagrams (sosendcheck in XNU's
// bsd/kern/uipc_socket.c, sbappendaddr in uipc_socket2.c).
func IsGone(err error) bool {
	errno, _ := errors.AsType[unix.Errno](err)
	switch errno {
	case unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, unix.ENOTCONN, unix.EDESTADDRREQ, unix.EINVAL:
		return true
	}
	return false
}

// failed ends the link because a send failed.
func (d *Datagram) failed(err error) {
	if IsGone(err) {
		d.fail(io.EOF)
		return
	}
	d.fail(fmt.Errorf("send to client: %w", err))
}

// readOnce implements source.
func (d *Datagram) readOnce(fd int, h Handler) (again bool, err error) {
	if d.receiver == nil {
		if !d.looked { // not before: it may have been connected since it was opened
			d.from, d.named = onlySender(fd)
			d.looked = true
		}
		if d.receiver, err = mmsg.NewReceiver(d.named); err != nil {
			d.receiver = nil
			return false, fmt.Errorf("%w: %w", errNoMemory, err)
		}
	}
	r := d.receiver
	n, err := r.Receive(fd)
	switch {
	case err == unix.EAGAIN:
		return true, nil
	case IsGone(err):
		return false, io.EOF
	case err != nil:
		return false, fmt.Errorf("receive from client: %w", err)
	}
	for first, end := 0, n; first < n; first, end = end, n {
		if d.named {
			for end = first; end < n && bytes.Equal(r.Name(end), d.from); {
				end++
			}
			if end == first {
				d.out.Dropped(Stats{DropForeign: 1})
				end++
				continue
			}
		}
		b, runts, long := r.Pack(first, end)
		d.handOn(b, runts, long, h)
	}
	return n < mmsg.BatchLen, nil
}

// release implements source.
func (d *Datagram) release() {
	if d.receiver != nil {
		d.receiver.Free()
		d.receiver = nil
	}
}

// discard implements source. No client is cut within a frame, so what waits is all there is to read.
func (d *Datagram) discard(DrainSchedule) (eof bool) {
	_, _ = d.read(nil, lastReads)
	return false
}

// A datagramPipe is a pipe into a connected datagram socket.
type datagramPipe struct {
	fd     int
	rc     syscall.RawConn
	sender *mmsg.Sender
}

// Send implements pipe.
func (p *datagramPipe) Send(b frame.Batch) (int, error) { return p.sender.Send(p.fd, nil, b) }
