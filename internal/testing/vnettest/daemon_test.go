// SPDX-License-Identifier: Apache-2.0

package vnettest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/gateway"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// ownDaemon is a daemon that ends with its network.
type ownDaemon struct {
	network.Network
	stop func()
}

func (d ownDaemon) Close() error {
	err := d.Network.Close()
	d.stop()
	return err
}

// startDaemonFor does so for clients that dial makes of those of the stream socket.
func startDaemonFor(t *testing.T, dial func(vnettest.Transport) vnettest.Transport) ownDaemon {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	program := gateway.Program{Path: os.Args[0], UID: -1, GID: -1}
	backend, err := usernet.New(usernet.Options{Config: gateway.Config{Mode: network.ModeHost}, Start: program.Start, Log: log})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	server := perclient.NewServer(perclient.Options{Network: backend, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { link.Accept(ctx, ln, server.Handle, log) })
	o := vnettest.DaemonOptions{Socket: path, Gateway: backend.Info().Gateway, MaxFrame: frame.MaxStreamLen}
	if dial != nil {
		o.Transports = []vnettest.Transport{dial(vnettest.StreamSocket(path))}
	}
	return ownDaemon{vnettest.DaemonNetwork(o), sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		_ = ln.Close()
		server.Stop()
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		server.Wait(limit)
		_ = backend.Close()
	})}
}

// stayingLink is a client that does not go when it is closed.
type stayingLink struct {
	fakeguest.Link
	ended func(error)
}

func (l *stayingLink) Start(receive func([]byte), ended func(error)) error {
	l.ended = ended
	return l.Link.Start(receive, func(error) {})
}

func (l *stayingLink) Close() error {
	l.ended(net.ErrClosed)
	return nil
}

// TestClientThatStays: closing a port fails when the daemon still has the client, and succeeds when it has forgotten it.
func TestClientThatStays(t *testing.T) {
	for _, stays := range []bool{true, false} {
		t.Run(fmt.Sprint(stays), func(t *testing.T) {
			var opened fakeguest.Link
			d := startDaemonFor(t, func(stream vnettest.Transport) vnettest.Transport {
				way := stream
				way.Dial = func(ctx context.Context) (fakeguest.Link, error) {
					l, err := stream.Dial(ctx)
					opened = l
					if stays {
						return &stayingLink{Link: l}, err
					}
					return struct{ fakeguest.Link }{l}, err // without CloseWrite
				}
				return way
			})
			defer d.Close()
			defer func() { _ = opened.Close() }()
			if stays {
				vnettest.SetPatience(d.Network, 100*time.Millisecond)
			}
			p, err := d.Attach(t.Context(), network.PortOptions{}, discard{})
			require.NoError(t, err)
			if err = p.Close(); stays {
				assert.ErrorContains(t, err, "still has its address")
				return
			}
			assert.NoError(t, err)
		})
	}
}

// discard is a sink for nothing.
type discard struct{}

func (discard) Deliver(frame.Batch) {}
func (discard) MaxFrame() int       { return frame.MaxLen }
