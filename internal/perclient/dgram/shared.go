// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/mmsg"
)

// turnTime is how long a socket that has just been given the path is not read at most.
const turnTime = 250 * time.Millisecond

// A shared is a socket that was bound to the path that clients send to, with a reader of its own.
//
// On Linux, a client that has connected its socket takes datagrams only from the socket that it has connected to, and what it has
// not read is charged to the send buffer of that one. So that it harms nobody by not reading, that socket becomes its own: the
// Server binds another one to the path, for those who come next. A client that had connected before is served, too, but is sent
// to only as long as half of the buffer is free, so that it cannot keep the first one from its frames.
type shared struct {
	srv  *Server
	id   int // of this Server and of the images before
	conn *net.UnixConn
	rc   syscall.RawConn
	fd   int
	size int // bytes of the send buffer, as the system counts

	busy atomic.Bool    // the reader has taken datagrams, or is about to, that it has not handed on
	rcv  *mmsg.Receiver // used by the reader
	last *client        // whose datagram the reader had last; nil when it has ended
	at   *client        // to whom the reader hands datagrams just now

	// use keeps close from closing the descriptor while a send is under way.
	use    sync.RWMutex
	closed bool

	// srv.mu guards what follows.
	users int               // clients that are answered through it
	idle  bool              // the last sweep found none
	first inode             // the socket of the first one
	kept  map[inode]*target // those of clients that were disconnected: their next datagram comes by this socket
}

// newShared sets the buffers of conn, which it owns unless there is an error, and has its datagrams carry their sender's user.
func newShared(s *Server, conn *net.UnixConn) (*shared, error) {
	sh := &shared{srv: s, conn: conn, kept: map[inode]*target{}}
	s.mu.Lock()
	s.lastID++
	sh.id = s.lastID
	s.mu.Unlock()
	var err error
	if sh.rc, err = conn.SyscallConn(); err != nil {
		return nil, fmt.Errorf("get descriptor of datagram socket: %w", err)
	}
	cerr := sh.rc.Control(func(fd uintptr) {
		sh.fd = int(fd)
		enlarge(sh.fd, unix.SO_RCVBUF, sharedBufLen)
		sh.size, err = enlargeShared(sh.fd)
	})
	if cerr != nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("set up datagram socket: %w", err)
	}
	return sh, nil
}

// join notes that the client at t is answered through it from now on. guest: it is not the first.
func (sh *shared) join(t *target) (guest bool) {
	sh.srv.mu.Lock()
	defer sh.srv.mu.Unlock()
	sh.users++
	sh.idle = false
	if old := sh.kept[t.id]; old != nil {
		old.close()
		delete(sh.kept, t.id)
	}
	if sh.first == (inode{}) {
		sh.first = t.id
	}
	return sh.first != t.id
}

// leave undoes join. keep is t for a client that may come back by it, else nil.
func (sh *shared) leave(id inode, keep *target) {
	sh.srv.mu.Lock()
	defer sh.srv.mu.Unlock()
	sh.users--
	switch {
	case keep != nil && sh.kept != nil && !sh.srv.closed:
		if old := sh.kept[id]; old != nil {
			old.close()
		}
		sh.kept[id] = keep
		return
	case keep != nil:
		keep.close()
	}
	if sh.first == id {
		sh.first = inode{}
	}
}

// interrupt ends the reader's wait, or lets it wait again.
func (sh *shared) interrupt(on bool) {
	t := time.Time{}
	if on {
		t = time.Unix(1, 0)
	}
	_ = sh.conn.SetReadDeadline(t)
}

// close ends all sends and the reader.
func (sh *shared) close() {
	sh.use.Lock()
	sh.closed = true
	sh.use.Unlock()
	sh.srv.mu.Lock()
	for _, t := range sh.kept {
		t.close()
	}
	sh.kept = nil
	sh.srv.mu.Unlock()
	_ = sh.conn.Close()
}

// gone reports whether it is closed.
func (sh *shared) gone() bool {
	sh.use.RLock()
	defer sh.use.RUnlock()
	return sh.closed
}

// send sends the frames of b to t. A guest has half of the buffer at most.
func (sh *shared) send(via *mmsg.Sender, t *target, guest bool, b frame.Batch) (taken int, err error) {
	sh.use.RLock()
	defer sh.use.RUnlock()
	if sh.closed {
		return 0, net.ErrClosed
	}
	if t.pin.via == "" && !t.same() {
		return 0, unix.ENOENT
	}
	if guest {
		b = within(b, sh.size/2-outstanding(sh.fd))
	}
	if b.Len() == 0 {
		return 0, nil
	}
	return via.Send(sh.fd, t.to, b)
}

// within is the head of b that Linux charges at most limit bytes for: a frame's bytes with their management in a piece of memory
// whose size is a power of two, and a struct sk_buff.
func within(b frame.Batch, limit int) frame.Batch {
	n := 0
	for it := b.Iter(); it.Next(); n++ {
		if limit -= 2*len(it.Frame()) + 1024; limit < 0 {
			break
		}
	}
	return b.Head(n)
}

// current is the socket that the path leads to.
func (s *Server) current() *shared {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cur
}

// wantTurn has turn be called soon.
func (s *Server) wantTurn() {
	select {
	case s.turns <- struct{}{}:
	default:
	}
}

// turn gives the path to a new socket if the present one has become a client's.
func (s *Server) turn() {
	s.mu.Lock()
	due := s.cur.users > 0 && !s.fixed
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
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.cur
	s.old[last] = struct{}{}
	s.cur = next // it has the path, so it is kept also when the Server is about to end
	s.running.Go(func() {
		last.handOn()
		next.readLoop()
	})
}

// handOn waits until all that had come by sh when it lost the path has been handed on, for turnTime at most: a client that sends by
// the path has its next frames in the next socket, and none may overtake those.
func (sh *shared) handOn() {
	waiting := []unix.PollFd{{Fd: int32(sh.fd), Events: unix.POLLIN}}
	for end := time.Now().Add(turnTime); time.Now().Before(end) && !sh.srv.stopping.Load(); time.Sleep(time.Millisecond) {
		// In this order: what does not wait was taken by a reader that was busy before.
		if n, err := unix.Poll(waiting, 0); err == nil && n == 0 && !sh.busy.Load() {
			return
		}
	}
}

// renew makes the socket that has the path from now on.
func (s *Server) renew() (*shared, error) {
	if s.opts.Renew == nil {
		return nil, errGiven
	}
	conn, err := s.opts.Renew()
	if err != nil {
		return nil, err
	}
	next, err := newShared(s, conn)
	if err != nil {
		_ = conn.Close()
	}
	return next, err
}

// sweepOld closes the sockets that no client has used for a while, and reports whether there are more that had the path: one that
// has connected to such a socket says so by a datagram, at once as vfkit and libkrun do.
func (s *Server) sweepOld() bool {
	s.mu.Lock()
	sockets := s.all()
	s.mu.Unlock()
	for _, sh := range sockets {
		s.mu.Lock()
		kept := maps.Clone(sh.kept)
		s.mu.Unlock()
		maps.DeleteFunc(kept, func(_ inode, t *target) bool { return t.same() && t.alive() })
		s.mu.Lock()
		for id, t := range kept {
			if sh.kept[id] == t { // it has not come back meanwhile
				delete(sh.kept, id)
				t.close()
			}
		}
		over := sh != s.cur && sh.users == 0 && len(sh.kept) == 0
		over, sh.idle = over && sh.idle, over
		if over {
			delete(s.old, sh)
		}
		s.mu.Unlock()
		if over {
			sh.close()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.old) > 0
}

// all are the sockets that there are. The caller holds mu.
func (s *Server) all() []*shared {
	return append(slices.Collect(maps.Keys(s.old)), s.cur)
}
