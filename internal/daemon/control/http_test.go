// SPDX-License-Identifier: Apache-2.0

package control

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveHTTP serves h until the end of the test.
func serveHTTP(t *testing.T, h http.HandlerFunc) (*HTTP, string) {
	t.Helper()
	path := socketPath(t)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	s := NewHTTP(h, patience, slog.New(slog.DiscardHandler), ln)
	s.Run(t.Context())
	t.Cleanup(s.end)
	return s, path
}

// dialHTTP connects and sends text.
func dialHTTP(t *testing.T, path, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// answered is all that comes back.
func answered(t *testing.T, c net.Conn) string {
	t.Helper()
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	return string(b)
}

// TestCrowd: connections that ask nothing are bounded, and served are those behind them once their time is over.
func TestCrowd(t *testing.T) {
	t.Parallel()
	s, path := serveHTTP(t, hello)
	for range maxConns + 32 { // macOS has 128 wait in the queue
		dialHTTP(t, path, "GET / HT")
	}
	c := dialHTTP(t, path, get)
	require.Eventually(t, func() bool { return len(s.sockets[0].taken) == maxConns }, patience, time.Millisecond)
	assert.Contains(t, answered(t, c), "hello")
}

// TestFlood: connections that come all the time are taken at a bounded rate.
func TestFlood(t *testing.T) {
	_, path := serveHTTP(t, hello)
	began := time.Now()
	const n = acceptBurst + acceptRate/2
	for range n {
		_, _ = io.ReadAll(dialHTTP(t, path, get))
	}
	assert.Greater(t, time.Since(began), 450*time.Millisecond)
}

// TestDetach: a request that was accepted is answered, if that does not take too long, and one that comes later waits in the queue.
func TestDetach(t *testing.T) {
	for name, late := range map[string]bool{"soon": false, "too late": true} {
		t.Run(name, func(t *testing.T) {
			var slow atomic.Bool
			slow.Store(late)
			inside, never := make(chan struct{}), make(chan struct{})
			defer close(never)
			s, path := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				inside <- struct{}{}
				if slow.Load() {
					<-never
				}
				hello(w, r)
			})
			first := dialHTTP(t, path, get)
			<-inside
			s.Detach()
			assert.Empty(t, s.sockets[0].taken)
			second := dialHTTP(t, path, get)
			select {
			case <-inside:
				assert.Fail(t, "served in a pause")
			case <-time.After(50 * time.Millisecond):
			}
			assert.Equal(t, !late, len(answered(t, first)) > 0)
			slow.Store(false)
			s.Run(t.Context())
			<-inside
			assert.Contains(t, answered(t, second), "hello")
		})
	}
}

// TestDetachInAccept: what Accept is about to return when Detach begins is waited for, and so is a socket that is full.
func TestDetachInAccept(t *testing.T) {
	for range 200 {
		s, path := serveHTTP(t, hello)
		c := dialHTTP(t, path, get)
		s.Detach()
		assert.Empty(t, s.sockets[0].taken)
		s.Run(t.Context())
		assert.Contains(t, answered(t, c), "hello")
		s.end()
	}
	s, path := serveHTTP(t, hello)
	for range maxConns + 1 {
		dialHTTP(t, path, "GET / HT")
	}
	require.Eventually(t, func() bool { return len(s.sockets[0].taken) == maxConns }, patience, time.Millisecond)
	began := time.Now()
	s.Detach()
	assert.Less(t, time.Since(began), headerTime)
}
