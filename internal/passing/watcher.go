// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/faults"
)

// sweepEvery is the distance of looks at the clients' sockets.
const sweepEvery = 5 * time.Second

var (
	// errPeerGone is why a session ends whose client has closed the other end of the socket that it handed over.
	errPeerGone = errors.New("the other end of the socket was closed")
	// errPathGone is why a session ends that waits at a path which nobody can send to any more.
	errPathGone = errors.New("the path that the socket was bound to is gone")
)

// A watched is a session on a pair of sockets, or on one that was handed over. Nothing need tell when its client has gone: the
// connection that it was handed over by is none of it, and no system reports the end of a pair of datagram sockets. On macOS a look
// tells; on Linux the next frame for it does.
type watched struct {
	member  *member
	session session // the member's
	path    string  // that it is bound to, if it waits for its first sender there

	looking atomic.Bool            // somebody looks at path
	at      atomic.Pointer[fileID] // what was at path at first
}

// A fileID tells a file from others for as long as it exists.
type fileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// A watcher looks at watched sessions from time to time and ends those whose client has gone. It runs while there are any.
type watcher struct {
	srv   *Server
	every time.Duration

	sweeping sync.Mutex // held while sessions are looked at

	mu       sync.Mutex
	sessions map[*watched]struct{}
}

func (w *watcher) init(s *Server) {
	w.srv, w.every, w.sessions = s, sweepEvery, map[*watched]struct{}{}
}

// add watches x, which is m's session, until it ends.
func (w *watcher) add(x session, m *member) *watched {
	h := m.handed
	e := &watched{member: m, session: x}
	if filepath.IsAbs(h.bound) {
		e.path = h.bound
	}
	if h.at != nil {
		e.at.Store(h.at)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[e] = struct{}{}
	if len(w.sessions) == 1 {
		w.srv.running.Go(w.run)
	}
	return e
}

// settle waits for a sweep that is under way. While the server is paused, the next one looks at nothing.
func (w *watcher) settle() {
	w.sweeping.Lock()
	defer w.sweeping.Unlock()
}

// run sweeps until no session is left.
func (w *watcher) run() {
	t := time.NewTicker(w.every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.srv.ctx.Done():
			w.mu.Lock()
			clear(w.sessions) // they are being ended
			w.mu.Unlock()
			return
		}
		if w.sweepSafely() == 0 {
			return
		}
	}
}

// sweepSafely is sweep, of which a panic costs this round.
func (w *watcher) sweepSafely() (left int) {
	defer func() {
		if r := recover(); r != nil {
			w.srv.broken("looking after the clients' sockets", r)
			left = 1
		}
	}()
	return w.sweep()
}

// sweep looks at each session once and returns how many are left.
func (w *watcher) sweep() int {
	w.sweeping.Lock()
	defer w.sweeping.Unlock()
	w.mu.Lock()
	if w.srv.paused() != nil {
		defer w.mu.Unlock()
		return len(w.sessions)
	}
	list := make([]*watched, 0, len(w.sessions))
	for e := range w.sessions {
		list = append(list, e)
	}
	w.mu.Unlock()
	var gone []*watched
	for _, e := range list {
		select {
		case <-e.session.Done():
			gone = append(gone, e)
			continue
		default:
		}
		if w.examine(e) {
			gone = append(gone, e)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range gone {
		delete(w.sessions, e)
	}
	return len(w.sessions)
}

// examine looks at one session and reports whether that is done with. After a panic it is looked
// at no more: the next look would go the same way.
func (w *watcher) examine(e *watched) (ended bool) {
	defer func() {
		if r := recover(); r != nil {
			w.srv.broken("looking at a client's socket", r)
			ended = true
		}
	}()
	faults.Point("passing.watch")
	if e.member.letGo() {
		return false // a stream's reader may be about to take the last frames
	}
	if e.member.gone() {
		e.session.End(errPeerGone)
		return true
	}
	if l, ok := e.member.link.(*pending); ok && l.waits() {
		e.look(w.srv)
	}
	return false
}

// look ends e, which waits for its first sender, if nobody can reach it at its path any more. The path is the client's choice, and its file system may not answer: nobody waits for it.
func (e *watched) look(s *Server) {
	if e.path == "" || !e.looking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer e.looking.Store(false)
		defer func() {
			if r := recover(); r != nil {
				s.broken("looking at a client's path", r)
			}
		}()
		var st unix.Stat_t
		err := unix.Lstat(e.path, &st)
		is := fileID{Dev: uint64(st.Dev), Ino: st.Ino}
		switch at := e.at.Load(); {
		case s.paused() != nil: // the next look tells as well
		case at == nil && err == nil:
			e.at.Store(&is)
		case at == nil: // never seen
		case errors.Is(err, unix.ENOENT), err == nil && is != *at:
			e.session.End(errPathGone)
		}
	}()
}
