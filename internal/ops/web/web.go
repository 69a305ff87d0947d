// SPDX-License-Identifier: Apache-2.0

// Package web is a page that shows what a daemon tells of itself, for a browser. It has no parts from elsewhere, and shows nothing that
// status --json does not.
package web

import (
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

//go:embed page
var files embed.FS

// policy has the browser load nothing but what Page answers with, run no other script, and show the page in no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page answers with the page at /, and with what describe returns, a status.Status as JSON, at /status.json. The page asks for that each
// second, by a relative address.
func Page(describe func(context.Context) (json.RawMessage, error)) http.Handler {
	mux := http.NewServeMux()
	page, _ := fs.Sub(files, "page") // it is there
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, r *http.Request) {
		b, err := describe(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b) // a browser that has gone is no event
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			w.Header().Set(name, value)
		}
		mux.ServeHTTP(w, r)
	})
}

// Private has h answer below secret, a path such as "/X", and only on this host: other users of it do not know the path. Requests by
// another name than localhost are refused: to the browser, what a name of someone else's that leads to 127.0.0.1 answers with is of
// that site.
func Private(secret string, h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(secret+"/", http.StripPrefix(secret, h))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			http.Error(w, "ask as localhost or 127.0.0.1, not by another name", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLoopback tells whether host, with or without a port, is this host's loopback.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && a.IsLoopback()
}
