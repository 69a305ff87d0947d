// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// A stream is an answer that goes on for as long as its handler likes, such as a capture. It is a chunked body of HTTP: who reads
// it can tell its end from a connection that broke. Write is used by one goroutine at a time; it blocks while the client does not
// read, until SetWriteDeadline or the end of the daemon.
//
//	open -- the client leaves, Detach, or the server's Close --> done -- Close --> closed
//
// Who does not call Close within 100 ms of a Detach is cut off.
type stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	http context.Context // the server's
	all  context.Context // that of all streams
	ctx  context.Context // done when it is to end
	end  context.CancelFunc
	stop func() bool // ends the watch for the end of all
}

// OpenStream begins an answer of this type that goes on, and sends its head; the request's body has been read. It returns nil when
// the daemon is about to stop or to be upgraded; the request has been answered then. The handler calls Close.
func (s *Server) OpenStream(w http.ResponseWriter, r *http.Request, contentType string) *stream {
	st := &stream{w: w, rc: http.NewResponseController(w), http: s.http.ctx}
	s.mu.Lock()
	st.all = s.streams
	s.mu.Unlock()
	if e, ok := errors.AsType[*Error](context.Cause(st.all)); ok {
		WriteError(w, http.StatusServiceUnavailable, e.Code, e.Text)
		return nil
	}
	// Without deadlines: the one for reading would end the request's context.
	_ = st.rc.SetReadDeadline(time.Time{})
	_ = st.rc.SetWriteDeadline(time.Time{})
	st.ctx, st.end = context.WithCancel(r.Context())
	st.stop = context.AfterFunc(st.all, st.end)
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
func (st *stream) Done() <-chan struct{} { return st.ctx.Done() }

// Left tells, once Done is closed, whether that is since the client has left.
func (st *stream) Left() bool { return st.all.Err() == nil && st.http.Err() == nil }

// Close ends the stream in order, unless it has been cut off. The handler returns after it.
func (st *stream) Close() {
	st.stop()
	st.end()
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTime)) // of what is left, and the end
}

// startStreams lets streams be opened.
func (s *Server) startStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams, s.endStreams = context.WithCancelCause(context.Background())
}

// stopStreams has all streams end, and refuses others with that reason until startStreams.
func (s *Server) stopStreams(code, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endStreams(&Error{code, text})
}
