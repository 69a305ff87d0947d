// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// complainBurst and complainEvery are how many refusals are logged at once, and how fast further ones may be: a client
	// can cause as many as it likes.
	complainBurst = 20
	complainEvery = time.Second
)

// A limiter decides which refusals are logged.
type limiter struct {
	mu    sync.Mutex
	room  float64
	last  time.Time // when room was right
	muted int       // since one was logged
}

// take reports whether a refusal now is to be logged, and how many were not since the last one.
func (l *limiter) take(now time.Time) (ok bool, muted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.room = min(complainBurst, l.room+float64(now.Sub(l.last))/float64(complainEvery))
	l.last = now
	if l.room < 1 {
		l.muted++
		return false, 0
	}
	l.room--
	muted, l.muted = l.muted, 0
	return true, muted
}

// complain logs what a client did wrong, or what was wrong for it.
func (s *Server) complain(c *conn, what string, args ...any) {
	ok, muted := s.logged.take(time.Now())
	if !ok {
		return
	}
	args = append([]any{"via", c.door}, args...)
	args = append(args, c.peer.Args()...)
	if muted > 0 {
		args = append(args, "not_logged", muted)
	}
	s.opts.Log.Warn(what, args...)
}

// broken logs what recover returned in a goroutine that looks after clients; the next look is tried.
func (s *Server) broken(doing string, r any) {
	if ok, _ := s.logged.take(time.Now()); ok {
		s.opts.Log.Error("internal error: clients are served on; please report it", "doing", doing, "panic", fmt.Sprint(r), "stack", stack())
	}
}

// stack is where a panic happened.
func stack() string { return string(debug.Stack()) }
