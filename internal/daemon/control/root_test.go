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
		"not listened on":  func(path string) error { return staleAt(path) },
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
