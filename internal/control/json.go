// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net/http"
)

// inJSON bounds the body, and says in JSON what http.ServeMux says in plain text: no such path, no such method.
func inJSON(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		said := &statusOnly{header: http.Header{}}
		h.ServeHTTP(said, r)
		if said.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", said.header.Get("Allow"))
			WriteError(w, said.status, "method", fmt.Sprintf("%s takes %s", clip(r.URL.Path), said.header.Get("Allow")))
			return
		}
		WriteError(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no %s here", clip(r.URL.Path)))
	})
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
	return s[:min(len(s), most)]
}
