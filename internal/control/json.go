// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"unicode/utf8"
)

// A front is the handler of all requests. It bounds the body, has a handler's panic end its request only, and says in JSON what
// http.ServeMux says in plain text: no such path, no such method.
type front struct {
	mux   *http.ServeMux
	known string // the methods and paths
	log   *slog.Logger
	told  sync.Once

	streams *streams
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(context.WithValue(r.Context(), streamsKey{}, f.streams))
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
	h, pattern := f.mux.Handler(r)
	switch {
	case r.RequestURI == "*" || r.Method == http.MethodConnect || path.Clean(r.URL.Path) != r.URL.Path: // for which the mux has words of its own
		f.unknown(w, r)
	case pattern != "":
		f.mux.ServeHTTP(w, r)
	default:
		said := &statusOnly{header: http.Header{}}
		h.ServeHTTP(said, r)
		if said.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", said.header.Get("Allow"))
			WriteError(w, said.status, "method", fmt.Sprintf("%s takes %s", clip(r.URL.Path), said.header.Get("Allow")))
			return
		}
		f.unknown(w, r)
	}
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
	if err != nil {
		writeInternal(w, err)
		return
	}
	writeBody(w, status, append(b, '\n'))
}

// writeBody answers with JSON and its line feed.
func writeBody(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func writeInternal(w http.ResponseWriter, err error) {
	WriteError(w, http.StatusInternalServerError, "internal", fmt.Sprintf("the answer cannot be written: %v", err))
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

// statusOnly is a response of which only the status and the header count.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header { return s.header }

func (s *statusOnly) Write(b []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(b), nil
}

func (s *statusOnly) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
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
