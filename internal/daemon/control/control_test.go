// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socketPath is a short one.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ctl")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "control")
}

// serve runs a server until the end of the test.
func serve(t *testing.T, change func(o *Options)) (*HTTP, string) {
	t.Helper()
	path := socketPath(t)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	o := Options{Sockets: []*net.UnixListener{ln}, Log: slog.New(slog.DiscardHandler)}
	(&fakeSource{}).serve(&o)
	if change != nil {
		change(&o)
	}
	s := New(o)
	s.Run(t.Context())
	t.Cleanup(s.end)
	return s, path
}

// end is the end of the daemon.
func (s *HTTP) end() {
	for _, ln := range s.sockets {
		_ = ln.listener.Close()
	}
	s.Detach()
}

// ask is Ask with a limit.
func ask(t *testing.T, path, method, what string) (int, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	status, b, err := Ask(ctx, path, method, what, nil)
	return status, strings.TrimSpace(string(b)), err
}

// errorOf is the code and the text of an error that the daemon answered.
func errorOf(t *testing.T, err error) Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	require.True(t, ok, "%v", err)
	return *e
}

func TestHandle(t *testing.T) {
	_, path := serve(t, func(o *Options) {
		o.Handle = map[string]http.Handler{
			"GET /v1/me": Handler(func(_ http.ResponseWriter, r *http.Request) any { return PeerOf(r) }),
			"POST /v1/size": Handler(func(_ http.ResponseWriter, r *http.Request) any {
				b, err := io.ReadAll(r.Body)
				return fmt.Sprint(len(b), err)
			}),
			"GET /v1/bad": Handler(func(http.ResponseWriter, *http.Request) any { return func() {} }),
		}
	})
	_, answer, err := ask(t, path, http.MethodGet, "/v1/me")
	require.NoError(t, err)
	var p hostfs.Peer
	require.NoError(t, json.Unmarshal([]byte(answer), &p))
	assert.Equal(t, hostfs.Peer{Known: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), PID: os.Getpid()}, p)
	status, _, err := ask(t, path, http.MethodGet, "/v1/bad")
	assert.Equal(t, 500, status)
	assert.Equal(t, "internal", errorOf(t, err).Code)

	_, b, err := Ask(t.Context(), path, http.MethodPost, "/v1/size", map[string]int{"n": 1})
	require.NoError(t, err)
	assert.Contains(t, string(b), `"7 `, "the body has 7 bytes")
	_, _, err = Ask(t.Context(), path, http.MethodPost, "/v1/size", func() {})
	require.ErrorContains(t, err, "ask "+path)

	answer = raw(t, path, "POST /v1/size HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100000))
	assert.Contains(t, answer, "65536 http: request body too large")
}

// raw sends text and returns all that comes back.
func raw(t *testing.T, path, text string) string {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	go func() { _, _ = c.Write([]byte(text)) }()
	b, err := io.ReadAll(c)
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	return string(b)
}

// TestBadRequests is what a client may send. Each gets its answer, and the next one is served.
func TestBadRequests(t *testing.T) {
	_, path := serve(t, nil)
	for _, c := range []struct{ name, text, want string }{
		{"no such path", "GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n", `{"error":{"code":"not_found","text":"there is no /v1/nothing here: docs/control-api.md has what there is"}}`},
		{"long path", "GET /" + strings.Repeat("x", 8000) + " HTTP/1.1\r\nHost: x\r\n\r\n", `"there is no /xxx`},
		{"wrong method", "GET /v1/upgrade HTTP/1.1\r\nHost: x\r\n\r\n", `{"error":{"code":"method","text":"/v1/upgrade takes POST"}}`},
		{"no HTTP", "x\r\n\r\n", "400 Bad Request"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "404 Not Found"},
		{"large header", "GET /v1/version HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n", "431 Request Header Fields Too Large"},
		{"old", "GET /v1/version HTTP/1.0\r\n\r\n", `"version":"v1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := raw(t, path, c.text)
			assert.Contains(t, answer, c.want)
			assert.Equal(t, 1, strings.Count(answer, "HTTP/1."))
			assert.Less(t, len(answer), 1000)
			status, _, err := ask(t, path, http.MethodGet, "/v1/version")
			require.NoError(t, err)
			assert.Equal(t, 200, status)
		})
	}
}

func TestTrusted(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, c := range []struct {
		name string
		p    hostfs.Peer
		want bool
	}{
		{"root", hostfs.Peer{Known: true}, true},
		{"us", hostfs.Peer{Known: true, UID: me}, true},
		{"another", hostfs.Peer{Known: true, UID: me + 1}, false},
		{"root's group", hostfs.Peer{Known: true, UID: me + 1, GID: 0}, false},
		{"not known", hostfs.Peer{}, false},
		{"not known for sure", hostfs.Peer{Known: true, UID: me, Unverified: true}, false},
	} {
		assert.Equal(t, c.want, Trusted(c.p), c.name)
	}
}

func TestUpgradeRefused(t *testing.T) {
	want := Error{422, "check_failed", "it fails"}
	_, path := serve(t, func(o *Options) {
		o.Upgrade = func(_ context.Context, call *net.UnixConn, _ bool) { Answer(call, &want) }
	})
	for range 2 {
		status, answer, err := ask(t, path, http.MethodPost, "/v1/upgrade")
		assert.Equal(t, 422, status)
		assert.JSONEq(t, `{"error":{"code":"check_failed","text":"it fails"}}`, answer)
		assert.Equal(t, want, errorOf(t, err))
	}
}

// TestUpgradeIsKept: an upgrade goes on whatever its client does, and through a Detach, and ends with the daemon, which answers it.
func TestUpgradeIsKept(t *testing.T) {
	began, end := make(chan bool), make(chan struct{})
	s, path := serve(t, func(o *Options) {
		o.Upgrade = func(ctx context.Context, call *net.UnixConn, gateway bool) {
			began <- gateway
			select {
			case <-end:
			case <-ctx.Done():
			}
			Answer(call, &Error{503, "stopping", "the daemon stops"})
		}
	})
	s.Detach()
	running, stop := context.WithCancel(t.Context())
	s.Run(running)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _, err := Ask(ctx, path, http.MethodPost, "/v1/upgrade", nil)
		assert.ErrorIs(t, err, context.Canceled)
	})
	assert.False(t, <-began)
	cancel() // the client leaves
	wg.Wait()
	time.Sleep(10 * time.Millisecond)
	end <- struct{}{} // it still goes on
	wg.Go(func() {
		status, _, err := ask(t, path, http.MethodPost, "/v1/upgrade/gateway")
		assert.Equal(t, 503, status)
		assert.ErrorContains(t, err, "the daemon stops")
	})
	assert.True(t, <-began)
	s.Detach()
	assert.Empty(t, s.sockets[0].taken)
	stop()
	s.end()
	wg.Wait()
}

// TestAskErrors is what a client tells of what is no daemon.
func TestAskErrors(t *testing.T) {
	_, _, err := ask(t, "/nowhere/control", http.MethodGet, "/")
	require.ErrorIs(t, err, syscall.ENOENT)
	for name, answer := range map[string]string{
		"nothing":       "",
		"no JSON":       "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
		"cut":           "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
		"without error": "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			ln, err := net.Listen("unix", path)
			require.NoError(t, err)
			defer ln.Close()
			var wg sync.WaitGroup
			wg.Go(func() {
				c, err := ln.Accept()
				if assert.NoError(t, err) {
					_, _ = http.ReadRequest(bufio.NewReader(c))
					_, _ = c.Write([]byte(answer))
					_ = c.Close()
				}
			})
			_, _, err = ask(t, path, http.MethodGet, "/")
			require.Error(t, err)
			wg.Wait()
		})
	}
}

// TestRoot: a crowd at one socket leaves the one for root alone, and Ask takes the one that is not full.
func TestRoot(t *testing.T) {
	_, path := serve(t, func(o *Options) {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: o.Sockets[0].Addr().String() + RootSuffix, Net: "unix"})
		require.NoError(t, err)
		o.Sockets = append(o.Sockets, ln)
	})
	for range maxConns + 32 {
		dialHTTP(t, path, "")
	}
	began := time.Now()
	code, _, err := ask(t, path, http.MethodGet, "/v1/version")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, code)
	assert.Less(t, time.Since(began), headerTime, "it did not wait behind the others")
}
