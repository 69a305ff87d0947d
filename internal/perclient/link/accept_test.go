// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func listen(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln, path
}

// knock is a client that comes and leaves.
func knock(t *testing.T, path string) {
	t.Helper()
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

func TestAcceptWaiting(t *testing.T) {
	ln, path := listen(t)
	require.NoError(t, ln.SetDeadline(Past)) // as Accept leaves it
	const n = 20
	var clients []net.Conn
	for range n {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer c.Close()
		clients = append(clients, c)
	}
	accepted := 0
	AcceptWaiting(ln, func(c *net.UnixConn) {
		accepted++
		_ = c.Close()
	})
	assert.Equal(t, n, accepted)
	for _, c := range clients {
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF, "an orderly end, no reset")
	}
}

// TestAcceptWaitingEnds: it neither waits for what does not come, nor goes on for ever.
func TestAcceptWaitingEnds(t *testing.T) {
	ln, path := listen(t)
	inTime(t, func(t *testing.T) bool {
		began := time.Now()
		AcceptWaiting(ln, func(*net.UnixConn) { assert.Fail(t, "nothing came") })
		return time.Since(began) < backlogMax
	})
	began := time.Now()
	knock(t, path)
	AcceptWaiting(ln, func(c *net.UnixConn) {
		require.NoError(t, c.Close())
		require.Less(t, time.Since(began), 20*time.Second, "there is always one more")
		knock(t, path)
	})
}

func TestAcceptEnds(t *testing.T) {
	for name, end := range map[string]func(*net.UnixListener, context.CancelFunc){
		"by the context":       func(_ *net.UnixListener, cancel context.CancelFunc) { cancel() },
		"with a closed socket": func(ln *net.UnixListener, _ context.CancelFunc) { _ = ln.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ln, _ := listen(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			var logged strings.Builder
			wg.Go(func() { Accept(ctx, ln, func(*net.UnixConn) {}, slog.New(slog.NewTextHandler(&logged, nil))) })
			time.Sleep(10 * time.Millisecond)
			began := time.Now()
			end(ln, cancel)
			wg.Wait()
			assert.Less(t, time.Since(began), 20*time.Second, "it waits for a client")
			assert.Empty(t, logged.String(), "an end is no failure")
		})
	}
}

// TestAcceptEndsUnderAFlood: there is always one more connection.
func TestAcceptEndsUnderAFlood(t *testing.T) {
	ln, path := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	knock(t, path)
	accepted := 0
	Accept(ctx, ln, func(c *net.UnixConn) {
		_ = c.Close()
		knock(t, path)
		switch accepted++; accepted {
		case 10:
			cancel()
		case 1000:
			_ = ln.Close()
		}
	}, slog.New(slog.DiscardHandler))
	assert.Equal(t, 10, accepted)
}

func TestAcceptSurvivesRunningOutOfDescriptors(t *testing.T) {
	ln, path := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	got := make(chan *net.UnixConn, 1)
	client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(client)

	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	// Nothing can be opened above the highest descriptor in use.
	probe, err := unix.Dup(client)
	require.NoError(t, err)
	require.NoError(t, unix.Close(probe))
	low := unix.Rlimit{Cur: uint64(probe), Max: old.Max}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
	var logged strings.Builder
	wg.Go(func() {
		Accept(ctx, ln, func(c *net.UnixConn) { got <- c }, slog.New(slog.NewTextHandler(&logged, nil)))
	})
	connErr := unix.Connect(client, &unix.SockaddrUnix{Name: path})
	time.Sleep(50 * time.Millisecond)
	starved := len(got) == 0
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))

	require.NoError(t, connErr)
	assert.True(t, starved, "the limit had no effect")
	select {
	case c := <-got:
		_ = c.Close()
	case <-time.After(20 * time.Second):
		assert.Fail(t, "the client was never accepted")
	}
	cancel()
	wg.Wait()
	assert.Contains(t, logged.String(), "trying again")
}

// TestAcceptLeavesTheBacklog: a connection that waits at the end is served by the next loop.
func TestAcceptLeavesTheBacklog(t *testing.T) {
	ln, path := listen(t)
	log := slog.New(slog.DiscardHandler)
	accepted := make(chan struct{}, 1)
	handle := func(c *net.UnixConn) {
		accepted <- struct{}{}
		_ = c.Close()
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); Accept(ctx, ln, handle, log) }()
		cancel()
		<-over
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		Accept(ctx, ln, handle, log)
		assert.Empty(t, accepted)
		next, stop := context.WithCancel(t.Context())
		over = make(chan struct{})
		go func() { defer close(over); Accept(next, ln, handle, log) }()
		<-accepted
		stop()
		<-over
		require.NoError(t, c.Close())
	}
}
