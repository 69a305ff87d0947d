// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// A pipe sends to one client: a link.pipe.
//
// A client may change while it is served: one that was not connected becomes so, which is noticed by what a send returns. One whose
// socket has gone ends; a process that takes its place at its path, as QEMU does when it is started again, is another client.
type pipe struct {
	srv    *Server
	path   string
	uid    uint32
	sender *mmsg.Sender
	timer  *time.Timer // of Wait

	// mu guards what follows. It covers one batch, which does not wait.
	mu      sync.Mutex
	target  *target
	reply   *reply  // nil: through the socket via
	via     *shared // nil: through reply
	guest   bool    // of via
	stopped bool
	vain    int // how often Send has taken nothing in a row
}

// newPipe finds out which kind of client t is, which has sent by the socket by. It owns t unless there is an error.
func newPipe(by *shared, t *target) (*pipe, error) {
	p := &pipe{srv: by.srv, path: t.path, uid: t.uid, sender: mmsg.NewSender()}
	r, err := openReply(t)
	if err != nil && (!errors.Is(err, unix.EPERM) || p.srv.opts.Trust.ReplySocket) {
		return nil, err
	}
	p.target, p.reply = t, r
	if r == nil { // it is connected, to a socket of ours we hope
		p.answerBy(by)
	}
	return p, nil
}

// answerBy has the client answered by the socket that it has connected its own to. The caller holds mu, or p is known to no
// other goroutine.
func (p *pipe) answerBy(via *shared) {
	p.via, p.guest = via, via.join(p.target)
}

// tryAll looks for the socket that the client has connected to, which alone it takes datagrams from: it may have connected anew,
// or send by the path. The caller holds mu.
func (p *pipe) tryAll(b frame.Batch) (taken int, err error) {
	p.srv.mu.Lock()
	sockets := p.srv.all()
	p.srv.mu.Unlock()
	for _, sh := range sockets {
		p.via.leave(p.target.id, nil)
		p.answerBy(sh)
		if taken, err = sh.send(p.sender, p.target, p.guest, b); err != unix.EPERM {
			break
		}
	}
	p.srv.wantTurn()
	return taken, err
}

// settled is called when the client is served: the socket that it is answered by is its own from now on.
func (p *pipe) settled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.via != nil {
		p.srv.wantTurn()
	}
}

// detach lets go of what was sent to. comesBack: the client may send again, by the socket that it has connected to. The caller
// holds mu.
func (p *pipe) detach(comesBack bool) {
	if p.reply != nil {
		p.reply.close()
	}
	if p.via != nil {
		if comesBack {
			p.via.leave(p.target.id, p.target)
			p.target = nil
		} else {
			p.via.leave(p.target.id, nil)
		}
		p.srv.wakeSweep()
	}
	if p.target != nil {
		p.target.close()
	}
	p.reply, p.via, p.target = nil, nil, nil
}

// Send implements link.pipe.
func (p *pipe) Send(b frame.Batch) (taken int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return 0, net.ErrClosed
	}
	taken, err = p.send(b)
	if isGone(err) {
		return taken, io.EOF
	}
	if taken > 0 {
		p.vain = 0
	} else {
		p.vain++
	}
	if err == nil || err == unix.EAGAIN || err == unix.ENOBUFS || err == unix.ENOMEM {
		return taken, nil
	}
	if err == unix.EMSGSIZE {
		return taken, err
	}
	return taken, fmt.Errorf("send to client %q: %w", p.path, err)
}

// send sends b the way that there is. The client's first refusal of a reply socket is the sign that it has connected its
// socket to the shared one. The caller holds mu.
func (p *pipe) send(b frame.Batch) (taken int, err error) {
	if p.reply != nil {
		taken, err = p.sender.Send(p.reply.fd, nil, b)
		if err != unix.EPERM || p.srv.opts.Trust.ReplySocket {
			return taken, err
		}
		p.reply.close()
		p.reply = nil
		p.answerBy(p.srv.current())
		p.srv.wantTurn()
		b = b.After(taken)
	}
	more, err := p.via.send(p.sender, p.target, p.guest, b)
	if err == unix.EPERM {
		more, err = p.tryAll(b.After(more))
	}
	return taken + more, err
}

// isGone reports whether err says that nobody has the client's socket any more.
func isGone(err error) bool {
	for _, e := range []error{unix.ECONNREFUSED, unix.ECONNRESET, unix.ENOTCONN, unix.EPIPE, unix.ENOENT, unix.EDESTADDRREQ} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// current is what is sent to, nil if there is nothing any more. It may be closed at any time: what it was made of is still good
// for a look at the path.
func (p *pipe) current() *target {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	return p.target
}

// check looks whether the client is still there, and can be found. io.EOF: it is not.
func (p *pipe) check() error {
	if t := p.current(); t != nil && (!p.srv.look.same(t) || p.gone()) {
		return io.EOF
	}
	return nil
}

// gone reports whether nobody has the client's socket any more.
func (p *pipe) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.target == nil {
		return true
	}
	if p.reply != nil {
		if left, known := p.reply.left(); known {
			return left
		}
	}
	return !p.target.alive()
}

// wake ends Wait, now and later.
func (p *pipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reply != nil {
		p.reply.wake()
	}
}

// stop makes Send fail and ends Wait.
func (p *pipe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.reply != nil {
		p.reply.wake()
	}
}

// close lets go of the client, after stop. comesBack is as of detach.
func (p *pipe) close(comesBack bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.detach(comesBack)
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
