// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"net/http"
	"time"
)

// A stream is an answer that goes on for as long as its handler likes, such as a capture. It is a chunked body of HTTP: its reader
// can tell its end from a connection that broke. Write is used by one goroutine at a time; it blocks while the client does not
// read, until SetWriteDeadline or the end of the daemon.
//
//	open -- the client leaves, Detach, or the server's Close --> done -- Close --> closed
//
// What does not call Close within 100 ms of a Detach is cut off.
type stream struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	ctx, base context.Context // of the request, and of all
}

// OpenStream begins an answer of this type that goes on, and sends its head; the request's body has been read. It fails when
// the daemon is about to stop or to be upgraded. The handler calls Close.
func OpenStream(w http.ResponseWriter, r *http.Request, contentType string) (*stream, error) {
	st := &stream{w: w, rc: http.NewResponseController(w), ctx: r.Context(), base: connOf(r).base}
	if st.base.Err() != nil {
		return nil, &Error{http.StatusServiceUnavailable, "stopping", "the daemon is stopping or being upgraded: ask again"}
	}
	// Without deadlines: the one for reading would end the request's context.
	_ = st.rc.SetReadDeadline(time.Time{})
	_ = st.rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	_ = st.rc.Flush()
	return st, nil
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
func (st *stream) Left() bool { return st.base.Err() == nil }

// Close ends the stream in order, unless it has been cut off. The handler returns after it.
func (st *stream) Close() {
	_ = st.rc.SetWriteDeadline(time.Now().Add(writeTime)) // of what is left, and the end
}
