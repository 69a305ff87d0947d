// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveBoth is serve with a socket for root and the daemon's user beside the other one.
func serveBoth(t *testing.T) (*HTTP, string) {
	t.Helper()
	return serve(t, func(o *Options) {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: o.Sockets[0].Addr().String() + RootSuffix, Net: "unix"})
		require.NoError(t, err)
		o.Sockets = append(o.Sockets, ln)
	})
}

// TestRoot: a crowd at one socket leaves the other one alone, and Ask takes the one that is not full.
func TestRoot(t *testing.T) {
	_, path := serveBoth(t)
	for range maxConns + 32 {
		c, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer c.Close()
	}
	began := time.Now()
	code, _, err := ask(t, path, http.MethodGet, "/v1/version")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, code)
	assert.Less(t, time.Since(began), headerTime, "it did not wait behind the others")
}

// TestRootIsOptional: a user who may not connect to it, or a daemon without it.
func TestRootIsOptional(t *testing.T) {
	for name, away := range map[string]func(path string) error{
		"none":             os.Remove,
		"not listened on":  func(path string) error { return staleAt(path) },
		"it is no socket":  func(path string) error { _ = os.Remove(path); return os.WriteFile(path, nil, 0o600) },
		"it leads nowhere": func(path string) error { _ = os.Remove(path); return os.Symlink("/nowhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			_, path := serveBoth(t)
			require.NoError(t, away(path+RootSuffix))
			code, _, err := ask(t, path, http.MethodGet, "/v1/version")
			require.NoError(t, err)
			assert.Equal(t, http.StatusOK, code)
		})
	}
}

// staleAt has a socket at path that no program has open any more.
func staleAt(path string) error {
	_ = os.Remove(path)
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	ln.SetUnlinkOnClose(false)
	return ln.Close()
}

// TestDetachBoth: neither is served in a pause, and both after it.
func TestDetachBoth(t *testing.T) {
	s, path := serveBoth(t)
	s.Detach()
	answers := make(chan string, 2)
	for _, p := range []string{path, path + RootSuffix} {
		c, err := net.Dial("unix", p)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte("GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n"))
		require.NoError(t, err)
		go func() {
			b := make([]byte, len("HTTP/1.1 200 OK"))
			n, _ := c.Read(b)
			answers <- string(b[:n])
		}()
	}
	time.Sleep(50 * time.Millisecond)
	assert.Empty(t, answers)
	s.Run(t.Context())
	for range 2 {
		assert.Equal(t, "HTTP/1.1 200 OK", <-answers)
	}
}
