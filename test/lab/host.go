// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// PageText is what a Page serves.
const PageText = "page from the host\n"

// A Page is an HTTP server of the host that has one small page at every path.
type Page struct {
	*httptest.Server

	mu    sync.Mutex
	paths []string
}

// ServePage serves a page on address, such as 127.0.0.1:0, until Close.
func ServePage(ctx context.Context, address string) (*Page, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve a page: %w", err)
	}
	p := &Page{}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.paths = append(p.paths, r.URL.Path)
		p.mu.Unlock()
		_, _ = io.WriteString(w, PageText)
	})
	p.Server = &httptest.Server{Listener: ln, Config: &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: answer}}
	p.Start()
	return p, nil
}

// Port is the TCP port that was taken.
func (p *Page) Port() int { return p.Listener.Addr().(*net.TCPAddr).Port }

// Paths are the paths that have been asked for, oldest first.
func (p *Page) Paths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.paths)
}
