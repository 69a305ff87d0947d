// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// requestTime is short, since the crowd in TestCrowd is waited out.
const requestTime = 200 * time.Millisecond

// serve serves h until the end of the test.
func serve(t *testing.T, h http.HandlerFunc) (*Server, string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "httpd")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	s := New(Options{Handler: h, RequestTime: requestTime, AnswerTime: patience, MaxHeader: 4096, Log: slog.New(slog.DiscardHandler)}, ln)
	s.Run(t.Context())
	t.Cleanup(s.Close)
	return s, path
}

// dial connects and sends text.
func dial(t *testing.T, path, text string) net.Conn {
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
	s, path := serve(t, hello)
	for range MaxConns + 32 { // macOS has 128 wait in the queue
		dial(t, path, "GET / HT")
	}
	c := dial(t, path, get)
	require.Eventually(t, func() bool { return s.sockets[0].inside() == MaxConns }, patience, time.Millisecond)
	assert.Contains(t, answered(t, c), "hello")
	assert.LessOrEqual(t, s.sockets[0].inside(), MaxConns)
}

// TestFlood: connections that come all the time are taken at a bounded rate.
func TestFlood(t *testing.T) {
	_, path := serve(t, hello)
	began := time.Now()
	const n = acceptBurst + acceptRate/2
	for range n {
		_, _ = io.ReadAll(dial(t, path, get))
	}
	assert.Greater(t, time.Since(began), 450*time.Millisecond)
}

// TestPeerAndHijack: who asks is known, also of a connection that a handler keeps, for which Detach does not wait.
func TestPeerAndHijack(t *testing.T) {
	kept := make(chan net.Conn, 1)
	s, path := serve(t, func(w http.ResponseWriter, r *http.Request) {
		p := PeerOf(r)
		assert.True(t, p.Known)
		assert.Equal(t, os.Getpid(), p.PID)
		c, nc, err := Hijack(w, r)
		if assert.NoError(t, err) {
			assert.IsType(t, &net.UnixConn{}, c.Conn)
			kept <- nc
		}
	})
	c := dial(t, path, get)
	nc := <-kept
	began := time.Now()
	s.Detach(patience)
	assert.Less(t, time.Since(began), patience)
	_, err := io.WriteString(nc, "mine")
	require.NoError(t, err)
	require.NoError(t, nc.Close())
	assert.Equal(t, "mine", answered(t, c))
	for range MaxConns { // its place is free again
		s.Attach()
		dial(t, path, get)
		_ = (<-kept).Close()
	}
}

// TestDetach: a request that was accepted is answered, one that comes later waits in the queue.
func TestDetach(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	s, path := serve(t, func(w http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		<-leave
		hello(w, r)
	})
	first := dial(t, path, get)
	<-inside
	s.Detach(10 * time.Millisecond)
	second := dial(t, path, get)
	select {
	case <-inside:
		assert.Fail(t, "served in a pause")
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	assert.Contains(t, answered(t, first), "hello")
	s.Detach(patience) // nobody is left
	assert.Zero(t, s.sockets[0].inside())
	s.Attach()
	<-inside
	assert.Contains(t, answered(t, second), "hello")
}

// TestDetachInAccept: what Accept is about to return when Detach begins is waited for.
func TestDetachInAccept(t *testing.T) {
	for range 200 {
		s, path := serve(t, hello)
		c := dial(t, path, get)
		s.Detach(patience)
		assert.Zero(t, s.sockets[0].inside())
		s.Attach()
		assert.Contains(t, answered(t, c), "hello")
		s.Close()
	}
}
