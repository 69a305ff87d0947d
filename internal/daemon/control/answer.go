// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// writeTime is how long the rest of an answer may take to write. It is small, so only a client that does not read takes any.
const writeTime = 2 * time.Second

// An Error is what went wrong, for programs and for people.
type Error struct {
	Status int    `json:"-"` // of HTTP
	Code   string `json:"code"`
	Text   string `json:"text"`
}

// Error makes it an error of Ask, whose text is for people.
func (e *Error) Error() string { return e.Text }

// errorBody is the form of every error.
type errorBody struct {
	Error *Error `json:"error"`
}

// A Handler returns the answer to a request without parameters: a document, or an error. nil: it has answered it.
type Handler func(w http.ResponseWriter, r *http.Request) any

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" { // h would not heed it
		writeAnswer(w, badRequest("bad_query", "%s takes no parameters, and got %s", r.URL.Path, clip(r.URL.RawQuery)))
	} else if v := h(w, r); v != nil {
		writeAnswer(w, v)
	}
}

// writeAnswer answers with v.
func writeAnswer(w http.ResponseWriter, v any) {
	status, b := encode(v)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// encode is v as the body of an answer, with its status. An error is answered as an Error, bytes are a body already.
func encode(v any) (status int, body []byte) {
	status = http.StatusOK
	if err, ok := v.(error); ok {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			e = &Error{http.StatusInternalServerError, "failed", err.Error()}
		}
		status, v = e.Status, errorBody{e}
	}
	if body, ok := v.([]byte); ok {
		return status, body
	}
	body, err := json.Marshal(v)
	if err != nil {
		return encode(&Error{http.StatusInternalServerError, "internal", fmt.Sprintf("the answer cannot be written: %v", err)})
	}
	return status, append(body, '\n')
}

// Answer answers the request that came by c, which a handler or the image before has kept, with v as a Handler does, and closes c. It
// does nothing if c is nil.
func Answer(c *net.UnixConn, v any) {
	if c == nil {
		return
	}
	status, b := encode(v)
	resp := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(b)), Body: io.NopCloser(bytes.NewReader(b)), Close: true,
	}
	_ = c.SetDeadline(time.Now().Add(writeTime))
	_ = resp.Write(c)
	_ = c.Close()
}

func badRequest(code, format string, args ...any) *Error {
	return &Error{http.StatusBadRequest, code, fmt.Sprintf(format, args...)}
}

// readJSON decodes the body of r into v, a pointer to a struct, of which all members are known and nothing follows.
func readJSON(r *http.Request, v any) *Error {
	err := decode(r.Body, v)
	switch large := (*http.MaxBytesError)(nil); {
	case errors.As(err, &large):
		return &Error{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body is larger than %d bytes", large.Limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Error{http.StatusRequestTimeout, "timeout", fmt.Sprintf("the body did not come within %v", headerTime)}
	case err != nil:
		return badRequest("bad_json", "the body is not such a JSON object, %s", clip(strings.Replace(err.Error(), "json: ", "", 1)))
	}
	return nil
}

// decode is what readJSON takes. Its error tells where what is wrong.
func decode(r io.Reader, v any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		switch _, err = d.Token(); {
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			err = errors.New("something follows the JSON object")
		}
	}
	return fmt.Errorf("at byte %d: %w", d.InputOffset(), err)
}

// clip is what a client sent for a message to it.
func clip(s string) string { return printable.Line(s, 200) }
