// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"unicode/utf8"
)

// A front is the handler of all requests. It bounds the body, and has a handler's panic end its request only.
type front struct {
	mux   *http.ServeMux
	known string // the methods and paths
	log   *slog.Logger
	told  sync.Once
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	defer func() {
		if p := recover(); p != nil {
			f.told.Do(func() {
				f.log.Error("internal error: a request at the control socket was not answered, all else runs on; please report it",
					"method", clip(r.Method), "path", clip(r.URL.Path), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			})
			WriteError(w, http.StatusInternalServerError, "internal", "internal error: see the daemon's log, and please report it")
		}
	}()
	if r.RequestURI == "*" || r.Method == http.MethodConnect || path.Clean(r.URL.Path) != r.URL.Path { // for which the mux has words of its own
		f.unknown(w, r)
		return
	}
	f.mux.ServeHTTP(w, r)
}

// unknown answers who asks for what there is not.
func (f *front) unknown(w http.ResponseWriter, r *http.Request) {
	what := r.URL.Path
	if what == "" {
		what = r.RequestURI
	}
	WriteError(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no %s here; there are %s", clip(what), f.known))
}

// withoutQuery refuses parameters that h would not heed.
func withoutQuery(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			WriteError(w, http.StatusBadRequest, "bad_query", fmt.Sprintf("%s takes no parameters, and got %s", r.URL.Path, clip(r.URL.RawQuery)))
			return
		}
		h(w, r)
	})
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	writeBody(w, status, b, err)
}

// writeBody answers with b, JSON that was encoded unless err says why it could not.
func writeBody(w http.ResponseWriter, status int, b []byte, err error) {
	if err != nil {
		WriteError(w, http.StatusInternalServerError, "internal", fmt.Sprintf("the answer cannot be written: %v", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)+1))
	w.WriteHeader(status)
	_, _ = w.Write(b)
	_, _ = io.WriteString(w, "\n")
}

// readJSON decodes the body of r into v, a pointer to a struct, of which all members are known and nothing follows. When it cannot,
// r has been answered.
func readJSON(w http.ResponseWriter, r *http.Request, v any) bool {
	b, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		WriteError(w, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body is larger than %d bytes", large.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		WriteError(w, http.StatusRequestTimeout, "timeout", fmt.Sprintf("the body did not come within %v", headerTime))
	case err != nil:
		WriteError(w, http.StatusBadRequest, "bad_body", fmt.Sprintf("the body cannot be read: %v", err))
	default:
		if err = decode(b, v); err != nil {
			WriteError(w, http.StatusBadRequest, "bad_json", err.Error())
		}
	}
	return err == nil
}

// decode is what readJSON takes. Its error tells what is wrong, and where.
func decode(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("something follows the JSON object")
	}
	return fmt.Errorf("the body is no such JSON object, at byte %d: %s", d.InputOffset(), clip(strings.TrimPrefix(err.Error(), "json: ")))
}

// An Error is what went wrong, for programs and for people.
type Error struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// errorBody is the form of every error.
type errorBody struct {
	Error Error `json:"error"`
}

// WriteError answers with an error.
func WriteError(w http.ResponseWriter, status int, code, text string) {
	WriteJSON(w, status, errorBody{Error{code, text}})
}

// clip shortens what a client sent, for a message to him.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	n := most
	for n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "�") + "…"
}
