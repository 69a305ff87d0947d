// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// first runs FirstSender in the background.
func first(ctx context.Context, conn *net.UnixConn, trust Trust) <-chan error {
	done := make(chan error, 1)
	go func() {
		path, err := FirstSender(ctx, conn, trust, 0)
		if err == nil && path == "" {
			err = errors.New("no path")
		}
		done <- err
	}()
	return done
}

// result waits for it.
func result(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		require.Fail(t, "FirstSender does not return")
		return nil
	}
}

func TestFirstSender(t *testing.T) {
	for _, connected := range []bool{true, false} {
		dir := shortDir(t)
		at := func(name string) *net.UnixAddr { return &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixgram"} }
		conn := bindAt(t, at("handed").Name)
		trust := Trust{AllowUIDs: []uint32{uint32(os.Geteuid())}, Own: []string{at("own").Name}}
		done := first(t.Context(), conn, trust)

		unbound, err := net.DialUnix("unixgram", nil, at("handed"))
		require.NoError(t, err)
		_, err = unbound.Write([]byte("nobody"))
		require.NoError(t, err)
		require.NoError(t, unbound.Close())
		gone := bindAt(t, at("gone").Name)
		require.NoError(t, os.Remove(at("gone").Name))
		_, err = gone.WriteToUnix([]byte("gone"), at("handed"))
		require.NoError(t, err)

		var client *net.UnixConn
		if connected {
			client, err = net.DialUnix("unixgram", at("client"), at("handed"))
			require.NoError(t, err)
			_, err = client.Write([]byte("first"))
		} else {
			client = bindAt(t, at("client").Name)
			_, err = client.WriteToUnix([]byte("first"), at("handed"))
		}
		require.NoError(t, err)
		require.NoError(t, result(t, done))
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		assert.Equal(t, "first", string(buf[:n]), "it is still there, and what came before is not")
		_, err = conn.Write([]byte("answer"))
		require.NoError(t, err)
		n, err = client.Read(buf)
		require.NoError(t, err)
		assert.Equal(t, "answer", string(buf[:n]))
		require.NoError(t, client.Close())
	}
}

func TestFirstSenderEnds(t *testing.T) {
	dir := shortDir(t)
	conn := bindAt(t, filepath.Join(dir, "handed"))
	ctx, cancel := context.WithCancel(t.Context())
	done := first(ctx, conn, Trust{})
	relative, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(dir, "handed"), Net: "unixgram"})
	require.NoError(t, err)
	defer relative.Close()
	_, err = relative.Write(testFrame(60, 1))
	require.NoError(t, err)
	require.Eventually(t, func() bool { // until it has been looked at
		_, err = relative.Write(nil)
		return err == nil
	}, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, result(t, done), context.Canceled)

	done = first(t.Context(), conn, Trust{})
	time.Sleep(10 * time.Millisecond)
	require.NoError(t, conn.Close())
	require.Error(t, result(t, done), "closed")
}

// TestFirstSenderEndsInAFlood: datagrams of nobody that do not stop keep it from nothing.
func TestFirstSenderEndsInAFlood(t *testing.T) {
	dir := shortDir(t)
	conn := bindAt(t, filepath.Join(dir, "handed"))
	ctx, cancel := context.WithCancel(t.Context())
	done := first(ctx, conn, Trust{})
	var flood sync.WaitGroup
	var over atomic.Bool
	for range 4 {
		nobody, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: filepath.Join(dir, "handed"), Net: "unixgram"})
		require.NoError(t, err)
		defer nobody.Close()
		flood.Go(func() {
			for !over.Load() {
				_ = nobody.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				_, _ = nobody.Write(nil)
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	cancel()
	require.ErrorIs(t, result(t, done), context.Canceled)
	over.Store(true)
	flood.Wait()
}
