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

// Private has h answer below secret, a path such as "/X", which other users of this host do not know, and ByAddress.
func Private(secret string, h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(secret+"/", http.StripPrefix(secret, h))
	return ByAddress(mux)
}

// ByAddress refuses requests by a name. A web page could else have a name of its author's lead to 127.0.0.1 and read what h answers: to
// the browser it would be of that site.
func ByAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && !strings.EqualFold(host, "localhost") && host != "" { // as in HTTP/1.0
			http.Error(w, "ask by address or as localhost, not by another name", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}
