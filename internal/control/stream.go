// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/httpd"
)

// maxStreams is how many streams there may be.
const maxStreams = 16

// A stream is an answer that goes on for as long as its handler likes, such as a capture. It is a chunked body of HTTP: who reads
// it can tell its end from a connection that broke. Write is used by one goroutine at a time; it blocks while the client does not
// read, until SetWriteDeadline or the end of the daemon.
//
//	open -- the client leaves, Detach, or the server's Close --> done -- Close --> closed
//
// Who does not call Close within 100 ms of a Detach is cut off.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	r  *http.Request
	of *streams

	once sync.Once
	done chan struct{}
	stop func() bool // ends the watch for the client's leaving
}

// OpenStream begins an answer of this type that goes on, and sends its head; the request's body has been read. It returns nil when
// there are too many, or the daemon is about to stop or to be upgraded; the request has been answered then. The handler calls Close.
func OpenStream(w http.ResponseWriter, r *http.Request, contentType string) *stream {
	st := &stream{w: w, rc: http.NewResponseController(w), r: r, of: streamsOf(r), done: make(chan struct{})}
	if code, text := st.of.enter(st); code != "" {
		WriteError(w, http.StatusServiceUnavailable, code, text)
		return nil
	}
	// Without deadlines: the one for reading would end the request's context.
	_ = st.rc.SetReadDeadline(time.Time{})
	_ = st.rc.SetWriteDeadline(time.Time{})
	st.stop = context.AfterFunc(r.Context(), st.end)
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	_ = st.rc.Flush()
	return st
}

// Write sends b as it is, at once.
func (st *stream) Write(b []byte) (int, error) {
	n, err := st.w.Write(b)
	if err == nil {
		err = st.rc.Flush()
	}
	return n, err
}

// SetWriteDeadline has Write fail from t on, for good. Zero: never.
func (st *stream) SetWriteDeadline(t time.Time) error { return st.rc.SetWriteDeadline(t) }

// Done is closed when the stream is to end: the client has left, an upgrade is under way or the daemon stops.
func (st *stream) Done() <-chan struct{} { return st.done }

// Left tells, once Done is closed, whether that is since the client has left.
func (st *stream) Left() bool {
	st.of.mu.Lock()
	defer st.of.mu.Unlock()
	return st.of.code == "" && (st.of.over == nil || st.of.over.Err() == nil)
}

// Close ends the stream in order, unless it has been cut off. The handler returns after it.
func (st *stream) Close() {
	st.stop()
	st.end()
	st.of.mu.Lock()
	delete(st.of.open, st)
	st.of.mu.Unlock()
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTime)) // of what is left, and the end
}

// end closes Done.
func (st *stream) end() { st.once.Do(func() { close(st.done) }) }

// streams are those that go on.
type streams struct {
	mu         sync.Mutex
	open       map[*stream]struct{}
	code, text string          // why there is none now
	over       context.Context // done when the server takes no more requests; nil in a test
}

// streamsKey is the context's key for the streams of the server.
type streamsKey struct{}

// streamsOf are those of the server that got r.
func streamsOf(r *http.Request) *streams {
	s, _ := r.Context().Value(streamsKey{}).(*streams)
	if s == nil { // a test without our server
		s = &streams{open: map[*stream]struct{}{}}
	}
	return s
}

// enter counts st in. If it may not, it says why.
func (s *streams) enter(st *stream) (code, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.code != "":
		return s.code, s.text
	case len(s.open) >= maxStreams:
		return "busy", "there are too many captures at once: end one of them"
	}
	s.open[st] = struct{}{}
	return "", ""
}

// stop has all streams end, and refuses others with that reason until start.
func (s *streams) stop(code, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.text = code, text
	for st := range s.open {
		st.end()
	}
}

func (s *streams) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.text = "", ""
}

// cutOff closes the connections of the streams that have not ended.
func (s *streams) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.open {
		if c := httpd.ConnOf(st.r); c != nil {
			_ = c.Conn.Close()
		}
	}
}
