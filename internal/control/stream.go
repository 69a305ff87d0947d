// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// maxStreams is how many streams there may be. They are not among the connections that keep others out.
const maxStreams = 16

// A Stream is an answer that goes on for as long as its handler likes, such as a capture. It is a chunked body of HTTP: who reads
// it can tell its end from a connection that broke. Write is used by one goroutine at a time; it blocks while the client does not
// read, until SetWriteDeadline or the end of the daemon.
//
//	open -- the client leaves, Pause, or the server's Close --> done -- Close --> closed
//
// Who does not call Close within 100 ms of a Pause is cut off.
type Stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	r    *http.Request
	conn *conn // nil in a test without our server

	once sync.Once
	done chan struct{}
	stop func() bool // ends the watch for the client's leaving
}

// OpenStream begins an answer of this type that goes on, and sends its head; the request's body has been read. It returns nil when
// there are too many, or the daemon is about to stop or to be upgraded; the request has been answered then. The handler calls Close.
func OpenStream(w http.ResponseWriter, r *http.Request, contentType string) *Stream {
	st := &Stream{w: w, rc: http.NewResponseController(w), r: r, conn: connOf(r), done: make(chan struct{})}
	if code, text := st.enter(); code != "" {
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
func (st *Stream) Write(b []byte) (int, error) {
	n, err := st.w.Write(b)
	if err == nil {
		err = st.rc.Flush()
	}
	return n, err
}

// SetWriteDeadline has Write fail from t on, for good. Zero: never.
func (st *Stream) SetWriteDeadline(t time.Time) error { return st.rc.SetWriteDeadline(t) }

// Done is closed when the stream is to end: the client has left, an upgrade is under way or the daemon stops.
func (st *Stream) Done() <-chan struct{} { return st.done }

// Left tells, once Done is closed, whether that is since the client has left.
func (st *Stream) Left() bool {
	if st.conn == nil {
		return true
	}
	g := st.conn.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut == nil && (g.over == nil || g.over.Err() == nil)
}

// Close ends the stream in order, unless it has been cut off. The handler returns after it.
func (st *Stream) Close() {
	st.stop()
	st.end()
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTime)) // of what is left, and the end
}

// end closes Done.
func (st *Stream) end() { st.once.Do(func() { close(st.done) }) }

// enter counts the stream in, and its connection out. If it may not, it says why.
func (st *Stream) enter() (code, text string) {
	if st.conn == nil {
		return "", ""
	}
	g := st.conn.gate
	g.mu.Lock()
	switch {
	case g.ended:
		code, text = "stopping", "the daemon is stopping"
	case g.shut != nil:
		code, text = "busy", "the daemon is being upgraded: ask again"
	case len(g.streams) >= maxStreams:
		code, text = "busy", "there are too many captures at once: end one of them"
	default:
		g.streams[st], st.conn.stream = struct{}{}, st
	}
	g.mu.Unlock()
	if code == "" {
		st.conn.leave()
	}
	return code, text
}

// leaveStream counts c's stream out, if there is one.
func (g *gate) leaveStream(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.stream == nil {
		return
	}
	c.stream.end()
	delete(g.streams, c.stream)
	c.stream = nil
	g.changed()
}
