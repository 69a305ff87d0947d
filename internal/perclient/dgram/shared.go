// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const (
	// sharedBufLen is the send buffer asked for on a shared socket, in bytes.
	sharedBufLen = 4 << 20

	// maxIdle is how many sockets without a client are kept that had the path: a client whose session was ended is connected to one of
	// them, and may be one that has connected and not spoken yet.
	maxIdle = 3

	// storeDelay is how old a socket is that is stored: a client that comes and goes cannot keep the service manager busy.
	storeDelay = time.Second

	// readPause is how long a reader rests after an error of its socket that it cannot do anything about.
	readPause = 10 * time.Millisecond

	// lastReceives bounds what is read of a socket that has just lost the path before its next one is: more than
	// net.unix.max_dgram_qlen, also a raised one, lets wait.
	lastReceives = 64
)

// A shared is a socket that was bound to the path that clients send to, with a reader of its own.
//
// On Linux, a client that has connected its socket takes datagrams only from the socket that it has connected to, and what it has
// not read is charged to the send buffer of that one. So that it harms no other by not reading, that socket becomes its own: the
// reader binds another one to the path, for those that come next. A client that had connected before is served, too, but is sent
// to only as long as half of the buffer is free, so that it cannot keep the first one from its frames. It may have to wait for a first
// one that does not read: it had the moment between that one's first frame and the next socket to come in.
//
// Those that have lost the path stay for their clients, and the last maxIdle of them without one.
type shared struct {
	srv  *Server
	id   int // of this Server and of the images before
	conn *net.UnixConn
	rc   syscall.RawConn
	fd   int
	size int // bytes of the send buffer, as the system counts

	rcv *mmsg.Receiver // the reader's

	first atomic.Pointer[pipe] // of users

	found bool // the process before was killed: which clients it has will be known once they are sent to

	// srv.mu guards what follows.
	stored bool    // Options.Store may have a copy
	users  []*pipe // of the clients that are answered through it
	closed bool
}

// add makes the shared socket conn, the newest one, and owns it unless there is an error. Its buffers are set, and its datagrams
// carry their sender's user.
func (s *Server) add(conn *net.UnixConn, id int, found bool) (*shared, error) {
	rc, fd, err := link.Raw(conn)
	if err != nil {
		return nil, err
	}
	proto.SetBuffers(fd, proto.Datagram)
	size, err := enlargeShared(fd)
	if err != nil {
		return nil, fmt.Errorf("set up datagram socket: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := &shared{srv: s, id: cmp.Or(id, s.lastID+1), conn: conn, rc: rc, fd: fd, size: size, found: found, stored: id > 0}
	s.lastID = max(s.lastID, sh.id)
	s.sockets = append(s.sockets, sh)
	time.AfterFunc(storeDelay, sh.store)
	return sh, nil
}

// store has a copy of it kept, unless it is closed: it is not while Control runs.
func (sh *shared) store() {
	_ = sh.rc.Control(func(fd uintptr) {
		sh.srv.mu.Lock()
		sh.stored = true
		sh.srv.mu.Unlock()
		sh.srv.opts.Store(sh.id, int(fd))
	})
}

// join notes that p's client is answered through sh from now on, unless sh is closed.
func (sh *shared) join(p *pipe) bool {
	sh.srv.mu.Lock()
	defer sh.srv.mu.Unlock()
	if sh.closed {
		return false
	}
	sh.users = append(sh.users, p)
	sh.first.Store(sh.users[0])
	return true
}

// leave undoes join.
func (sh *shared) leave(p *pipe) {
	sh.srv.mu.Lock()
	defer sh.srv.mu.Unlock()
	sh.users = slices.DeleteFunc(sh.users, func(u *pipe) bool { return u == p })
	if len(sh.users) > 0 {
		sh.first.Store(sh.users[0])
		return
	}
	sh.first.Store(nil)
	sh.srv.closeIdle()
}

// closeIdle closes the sockets without a client that lost the path first, so that maxIdle are left; all when the Server is closed, and
// none while it does not run: its clients may be on their way to the next one, or from the last. The caller holds mu.
func (s *Server) closeIdle() {
	if !s.runs && !s.closed {
		return
	}
	last, idle := len(s.sockets)-1, 0
	for i := last; i >= 0; i-- {
		sh := s.sockets[i]
		if len(sh.users) > 0 || (i == last || sh.found) && !s.closed {
			continue
		}
		if idle++; idle > maxIdle || s.closed {
			sh.closed = true
			go func() {
				_ = sh.conn.Close() // it waits for the reader, which may wait for mu
				if sh.stored {
					s.opts.Forget(sh.id)
				}
			}()
			s.sockets = slices.Delete(s.sockets, i, i+1)
		}
	}
}

// interrupt ends the reader's wait, or lets it wait again.
func (sh *shared) interrupt(on bool) {
	t := time.Time{}
	if on {
		t = link.Past
	}
	_ = sh.conn.SetReadDeadline(t)
}

// send sends the frames of b to t. A client that is not the first one here has half of the buffer at most.
func (sh *shared) send(p *pipe, b frame.Batch) (taken int, err error) {
	if !p.target.usable() {
		return 0, unix.ENOENT
	}
	if sh.first.Load() != p {
		b = within(b, sh.size/2-outstanding(sh.fd))
	}
	if b.Len() == 0 {
		return 0, nil
	}
	return sh.srv.sender.Send(sh.fd, p.target.to, b)
}

// within is the head of b that Linux charges at most limit bytes for: a frame's bytes with their management in a piece of memory
// whose size is a power of two, and a struct sk_buff.
func within(b frame.Batch, limit int) frame.Batch {
	n, it := 0, b.Iter()
	for it.Next() {
		if limit -= 2*len(it.Frame()) + 1024; limit < 0 {
			break
		}
		n++
	}
	return b.Head(n)
}

// all are the sockets that there are. The last one has the path.
func (s *Server) all() []*shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sockets)
}

// cur is the one that has the path. The caller holds mu.
func (s *Server) cur() *shared { return s.sockets[len(s.sockets)-1] }

// due reports whether sh has the path and has become a client's. The caller holds mu.
func (s *Server) due(sh *shared) bool { return sh == s.cur() && len(sh.users) > 0 && !s.fixed }

// wantTurn has the reader of the socket that has the path make another one soon, if that has become a client's.
func (s *Server) wantTurn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.due(s.cur()) {
		s.cur().interrupt(true)
	}
}

// turn gives the path to another socket if sh has it and has become a client's. Its caller is the reader of sh, which has handed on
// what had come, and reads what comes meanwhile before the other one is read: a client that sends by the path has its next frames
// there, and none may overtake.
func (s *Server) turn(sh *shared) {
	s.mu.Lock()
	if !s.stopping.Load() { // else Halt has interrupted it
		sh.interrupt(false)
	}
	due := s.due(sh)
	s.mu.Unlock()
	if !due {
		return
	}
	next, err := s.renew()
	if err != nil {
		s.mu.Lock()
		s.fixed = true
		s.mu.Unlock()
		s.opts.Log.Warn("datagram clients that connect their sockets share one send buffer from now on: one that does not read holds up others",
			"error", err)
		return
	}
	_ = sh.rc.Control(func(fd uintptr) { _ = sh.drain(int(fd), lastReceives) })
	s.running.Go(next.readLoop)
}

// renew makes the socket that has the path from now on.
func (s *Server) renew() (*shared, error) {
	if s.opts.Renew == nil {
		return nil, errors.New("the socket was given by the service manager")
	}
	conn, err := s.opts.Renew()
	if err != nil {
		return nil, err
	}
	next, err := s.add(conn, 0, false)
	if err != nil {
		_ = conn.Close()
	}
	return next, err
}

// readLoop reads until the Server is halted or the socket is closed.
func (sh *shared) readLoop() {
	s := sh.srv
	defer sh.release()
	for !s.stopping.Load() {
		var err error
		poll := sh.rc.Read(func(fd uintptr) bool {
			err = sh.drain(int(fd), math.MaxInt)
			return err != nil || s.stopping.Load()
		})
		switch err = errors.Join(err, poll); {
		case err == nil, errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.turn(sh)
			continue
		}
		s.opts.Log.Warn("cannot read datagrams, trying again", "error", err) // the log counts lines that repeat
		time.Sleep(readPause)
	}
}
