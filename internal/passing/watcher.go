// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"
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
// connection that it was handed over by is none of it, and Linux does not report the end of a pair of datagram sockets until
// something is sent to it.
type watched struct {
	session session
	ino     uint64 // of the socket, in the system's table
	path    string // that it is bound to, if it waits for its first sender there
	at      os.FileInfo
}

// A watcher looks at watched sessions from time to time and ends those whose client has gone. It runs while there are any.
type watcher struct {
	srv   *Server
	every time.Duration

	mu       sync.Mutex
	sessions map[*watched]struct{}
}

func (w *watcher) init(s *Server) {
	w.srv, w.every, w.sessions = s, sweepEvery, map[*watched]struct{}{}
}

// add watches x on the socket h until it ends.
func (w *watcher) add(x session, h handed) {
	e := &watched{session: x, ino: h.ino, path: h.bound}
	if filepath.IsAbs(h.bound) {
		e.at, _ = os.Lstat(h.bound)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions[e] = struct{}{}
	if len(w.sessions) == 1 {
		w.srv.running.Go(w.run)
	}
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
		if w.sweep() == 0 {
			return
		}
	}
}

// sweep looks at each session once and returns how many are left.
func (w *watcher) sweep() int {
	w.mu.Lock()
	list := make([]*watched, 0, len(w.sessions))
	for e := range w.sessions {
		list = append(list, e)
	}
	w.mu.Unlock()
	table := openSocketTable()
	defer table.close()
	var gone []*watched
	for _, e := range list {
		select {
		case <-e.session.Done():
			gone = append(gone, e)
			continue
		default:
		}
		if err := e.look(table); err != nil {
			e.session.End(err)
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

// look tells why e's client is known to have gone, nil if it is not.
func (e *watched) look(table *socketTable) error {
	switch table.peer(e.ino) {
	case peerClosed:
		return errPeerGone
	case peerOpen:
		return nil
	}
	if e.at == nil {
		return nil
	}
	// It is not connected yet, or that cannot be seen here.
	if fi, err := os.Lstat(e.path); errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(fi, e.at) {
		return errPathGone
	}
	return nil
}

// A peerState is what is known of the other end of a unix socket.
type peerState int

const (
	peerUnknown peerState = iota // there may be none
	peerOpen
	peerClosed
)
