// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const (
	// minPause and maxPause bound how long the drainer waits for a client where the system does not tell when it has room.
	minPause = 50 * time.Microsecond
	maxPause = 16 * time.Millisecond

	// maxYields is how often it first only lets others run: a client that reads has mostly done so after a few microseconds.
	maxYields = 24
)

// A pipe sends to one client: a link.pipe.
//
// A client may change while it is served: one that was not connected becomes so, which is noticed by what a send returns. One whose
// socket has gone ends; a process that takes its place at its path, as QEMU does when it is started again, is another client.
type pipe struct {
	srv  *Server
	path string

	// mu guards what follows. It covers one batch, which does not wait.
	mu     sync.Mutex
	target *target // nil: there is none yet, or none any more
	reply  *reply  // nil: through the socket via
	via    *shared // nil: through reply
	vain   int     // how often Send has taken nothing in a row
}

// open finds out which kind of client t is, which has sent by the socket by, nil for none. It owns t unless there is an error.
func (p *pipe) open(t *target, by *shared) error {
	conn, err := t.connect()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		if p.reply, err = newReply(conn); err != nil {
			return err
		}
	case !errors.Is(err, unix.EPERM) || replyOnly || by == nil || !p.answerBy(by):
		return err
	}
	p.target = t
	return nil
}

// answerBy has the client answered by the socket that it has connected its own to, unless that is closed. The caller holds mu.
func (p *pipe) answerBy(via *shared) bool {
	if p.via != nil {
		p.via.leave(p)
	}
	p.via = nil
	if via.join(p) {
		p.via = via
	}
	return p.via != nil
}

// Send implements link.pipe.
func (p *pipe) Send(b frame.Batch) (taken int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target == nil {
		return 0, net.ErrClosed
	}
	taken, err = p.send(b)
	p.vain++
	if taken > 0 {
		p.vain = 0
	}
	switch {
	case err == unix.ENOMEM:
		err = unix.ENOBUFS
	case err != nil && isGone(err):
		err = io.EOF
	}
	return taken, err
}

// send sends b the way that there is. EPERM is the sign that the client has connected its socket to another one: one of the shared
// sockets, we hope, which alone it takes datagrams from. The caller holds mu.
func (p *pipe) send(b frame.Batch) (taken int, err error) {
	if p.reply != nil {
		taken, err = p.srv.sender.Send(p.reply.fd, nil, b)
	} else {
		taken, err = p.via.send(p, b)
	}
	if err != unix.EPERM || replyOnly {
		return taken, err
	}
	if p.reply != nil {
		_ = p.reply.Close()
		p.reply = nil
	}
	for _, sh := range p.srv.all() {
		if !p.answerBy(sh) {
			continue
		}
		var more int
		more, err = sh.send(p, b.After(taken))
		if taken += more; err != unix.EPERM {
			break
		}
	}
	p.srv.wantTurn()
	return taken, err
}

// Wait implements link.pipe. A reply socket's readiness is waited for where the system has it; else the drainer pauses.
func (p *pipe) Wait(<-chan struct{}) {
	p.mu.Lock()
	r, vain := p.reply, p.vain-maxYields
	p.mu.Unlock()
	switch {
	case r != nil && repliesTell:
		link.WaitWritable(r.rc)
	case r != nil:
		time.Sleep(minPause)
	case vain <= 0:
		yield()
	default:
		time.Sleep(min(minPause<<min(vain, 10), maxPause))
	}
}

// current is what is sent to, nil if there is nothing. It may be closed at any time: what it was made of is still good for a look at
// the path. left: its process has closed it. Macs tell, by a reply without a peer (unp_drop in XNU's bsd/kern/uipc_usrreq.c), and Linux
// keeps the peer until something is sent to it.
func (p *pipe) current() (t *target, left bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reply != nil {
		_, err := unix.Getpeername(p.reply.fd)
		left = isGone(err)
	}
	return p.target, left
}

// release makes Send fail, ends Wait, and gives away what was sent to and by.
func (p *pipe) release() (t *target, r *reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.via != nil {
		p.via.leave(p)
	}
	t, r = p.target, p.reply
	p.target, p.reply, p.via = nil, nil, nil
	r.wake()
	return t, r
}

// fd is what the client is sent to by.
func (p *pipe) fd() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reply != nil:
		return p.reply.fd
	case p.via != nil:
		return p.via.fd
	}
	return -1
}

// A reply is a datagram socket without a name of its own, connected to one client. Nothing can be sent to it.
type reply struct {
	*net.UnixConn
	rc syscall.RawConn
	fd int
}

// newReply makes a reply of a connected socket, which it takes over.
func newReply(conn *net.UnixConn) (*reply, error) {
	rc, fd, err := link.Raw(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	proto.SetBuffers(fd, proto.Datagram)
	_ = conn.SetWriteDeadline(time.Time{}) // a detached link has woken its drainer by one
	return &reply{conn, rc, fd}, nil
}

// wake ends Wait, now and later. It may be called on nil.
func (r *reply) wake() {
	if r != nil {
		_ = r.SetWriteDeadline(link.Past)
	}
}
