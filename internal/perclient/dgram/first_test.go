// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// first runs FirstSender in the background.
func first(conn *net.UnixConn, trust Trust) <-chan error {
	done := make(chan error, 1)
	go func() {
		path, err := FirstSender(conn, trust, nil, NewRefusals(slog.New(slog.DiscardHandler)))
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
		dir := vnettest.ShortDir(t)
		at := func(name string) *net.UnixAddr { return &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixgram"} }
		conn := bindAt(t, at("handed").Name)
		trust := Trust{AllowUIDs: []uint32{uint32(os.Geteuid())}, Own: []string{at("own").Name}}
		done := first(conn, trust)

		unbound, err := net.DialUnix("unixgram", nil, at("handed"))
		require.NoError(t, err)
		_, err = unbound.Write([]byte("unbound"))
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

// TestFirstSenderEnds: it ends with the deadline, and with its socket. Datagrams without an address that do not stop keep it from
// neither.
func TestFirstSenderEnds(t *testing.T) {
	path := filepath.Join(vnettest.ShortDir(t), "handed")
	conn := bindAt(t, path)
	unbound, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	some := make(chan struct{}, 100)
	var flood sync.WaitGroup
	flood.Go(func() {
		for err := error(nil); !errors.Is(err, net.ErrClosed); {
			if _, err = unbound.Write(nil); err == nil {
				select {
				case some <- struct{}{}:
				default:
				}
			}
		}
	})
	wait := func() { // until more were looked at than the socket holds
		for range cap(some) + 1000 {
			<-some
		}
	}
	done := first(conn, Trust{})
	wait()
	require.NoError(t, conn.SetReadDeadline(link.Past))
	require.ErrorIs(t, result(t, done), os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetReadDeadline(time.Time{}))
	done = first(conn, Trust{})
	wait()
	require.NoError(t, unbound.Close())
	flood.Wait()
	require.NoError(t, conn.Close())
	require.Error(t, result(t, done), "closed")
}
