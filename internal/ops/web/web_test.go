// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func describes(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"format":1}`), nil }

func get(h http.Handler, method, host, path string) *httptest.ResponseRecorder {
	req, rec := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	req.Host = host
	h.ServeHTTP(rec, req)
	return rec
}

func TestPrivate(t *testing.T) {
	h := Private("/SECRET", Page(describes))
	for _, tt := range []struct {
		method, host, path string
		code               int
		content            string
	}{
		{"GET", "127.0.0.1:8080", "/SECRET/", http.StatusOK, "<title>socket_vmnet2</title>"},
		{"GET", "LocalHost:8080", "/SECRET/page.js", http.StatusOK, "use strict"},
		{"GET", "[::1]:8080", "/SECRET/page.css", http.StatusOK, "color-scheme"},
		{"GET", "127.0.0.1", "/SECRET/status.json", http.StatusOK, `{"format":1}`},
		{"GET", "[::1]", "/SECRET/status.json", http.StatusOK, `{"format":1}`},
		{"GET", "localhost", "/SECRET", http.StatusTemporaryRedirect, "/SECRET/"},
		{"GET", "localhost", "/", http.StatusNotFound, "404"},
		{"GET", "localhost", "/status.json", http.StatusNotFound, "404"},
		{"GET", "localhost", "/secret/status.json", http.StatusNotFound, "404"},
		{"GET", "localhost", "/SECRET/nothing", http.StatusNotFound, "404"},
		{"GET", "localhost", "/SECRET/%2e%2e/web.go", http.StatusNotFound, "404"},
		{"POST", "localhost", "/SECRET/status.json", http.StatusMethodNotAllowed, "Method"},
		{"GET", "evil.example:8080", "/SECRET/", http.StatusMisdirectedRequest, "not by another name"},
		{"GET", "127.0.0.1.evil.example", "/SECRET/", http.StatusMisdirectedRequest, "not by another name"},
		{"GET", "", "/SECRET/", http.StatusOK, "<title>socket_vmnet2</title>"}, // HTTP/1.0
	} {
		rec := get(h, tt.method, tt.host, tt.path)
		assert.Equal(t, tt.code, rec.Code, "%v", tt)
		assert.Contains(t, rec.Body.String(), tt.content, "%v", tt)
	}
}

// TestPage: whatever it answers with, a browser runs nothing but the page's script, and asks nothing but this server.
func TestPage(t *testing.T) {
	broken := func(context.Context) (json.RawMessage, error) { return nil, errors.New("<b>the daemon has ended</b>") }
	for path, code := range map[string]int{"/": http.StatusOK, "/status.json": http.StatusBadGateway, "/nothing": http.StatusNotFound} {
		rec := get(Page(broken), "GET", "localhost", path)
		assert.Equal(t, code, rec.Code)
		assert.Equal(t, policy, rec.Header().Get("Content-Security-Policy"))
		assert.Equal(t, "nosniff", rec.Header().Get("X-Content-Type-Options"))
		assert.Empty(t, rec.Header().Get("Access-Control-Allow-Origin"))
		assert.Equal(t, code == http.StatusOK, rec.Header().Get("Content-Type") == "text/html; charset=utf-8", "an error is no page")
	}
	names, err := fs.Glob(files, "page/*")
	require.NoError(t, err)
	require.Len(t, names, 3)
	for _, name := range names {
		b, err := files.ReadFile(name)
		require.NoError(t, err)
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick", "https://"} {
			assert.NotContains(t, string(b), bad, name)
		}
	}
}
