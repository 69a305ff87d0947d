// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// serve serves full's metrics on a port of its own.
func serve(t *testing.T, anyHost bool) string {
	ln, err := ListenMetrics(netip.MustParseAddrPort("127.0.0.1:0"))
	require.NoError(t, err)
	s := http.Server{Handler: MetricsAlone(Metrics(full, slog.New(slog.DiscardHandler)), anyHost), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), MaxHeaderBytes: 8 << 10}
	s.SetKeepAlivesEnabled(false)
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return ln.Addr().String()
}

// ask sends text and returns the answer.
func ask(t *testing.T, addr, text string) *http.Response {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	return resp
}

func TestServer(t *testing.T) {
	addr := serve(t, false)
	for _, tt := range []struct {
		name, request string
		want          int
	}{
		{"metrics", "GET /metrics HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", http.StatusOK},
		{"no headers wanted", "HEAD /metrics HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", http.StatusOK},
		{"localhost", "GET /metrics HTTP/1.1\r\nHost: LocalHost:9105\r\n\r\n", http.StatusOK},
		{"IPv6", "GET /metrics HTTP/1.1\r\nHost: [::1]:9105\r\n\r\n", http.StatusOK},
		{"HTTP/1.0", "GET /metrics HTTP/1.0\r\n\r\n", http.StatusOK},
		{"another's name", "GET /metrics HTTP/1.1\r\nHost: evil.example:9105\r\n\r\n", http.StatusMisdirectedRequest},
		{"looks like an address", "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", http.StatusMisdirectedRequest},
		{"no host", "GET /metrics HTTP/1.1\r\n\r\n", http.StatusBadRequest},
		{"elsewhere", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", http.StatusNotFound},
		{"changing", "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", http.StatusNotFound},
		{"not HTTP", "hello\r\n\r\n", http.StatusBadRequest},
		{"header too long", "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := ask(t, addr, tt.request)
			defer resp.Body.Close()
			assert.Equal(t, tt.want, resp.StatusCode)
			b, err := io.ReadAll(resp.Body)
			if tt.name != "header too long" { // whose rest is unread, so the end is a reset
				require.NoError(t, err)
			}
			assert.Equal(t, tt.want == http.StatusOK && !strings.HasPrefix(tt.request, "HEAD"), strings.Contains(string(b), "socket_vmnet2_clients 1"))
			assert.True(t, resp.Close || resp.ProtoMinor == 0, "one request per connection")
		})
	}
}

func TestAnyHost(t *testing.T) {
	resp := ask(t, serve(t, true), "GET /metrics HTTP/1.1\r\nHost: builder.example:9105\r\n\r\n")
	defer resp.Body.Close()
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

// TestPortInUse says what to do.
func TestPortInUse(t *testing.T) {
	_, err := ListenMetrics(netip.MustParseAddrPort(serve(t, false)))
	assert.ErrorContains(t, err, "another program uses that port; end it or give --metrics-listen another port")
	_, err = ListenMetrics(netip.MustParseAddrPort("192.0.2.1:0"))
	assert.ErrorContains(t, err, "this host does not have that address")
}
