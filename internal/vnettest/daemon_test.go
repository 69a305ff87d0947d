// SPDX-License-Identifier: Apache-2.0

package vnettest_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/usernet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnettest"
)

// ownDaemon is a daemon that ends with its network.
type ownDaemon struct {
	vnet.Network
	stop func()
}

func (d ownDaemon) Close() error {
	err := d.Network.Close()
	d.stop()
	return err
}

// startDaemon runs a daemon without its command line in this process.
func startDaemon(t *testing.T) vnet.Network {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	backend, err := usernet.New(usernet.Options{Mode: vnet.ModeHost, Log: log})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	server := perclient.NewServer(perclient.Options{Network: backend, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { link.Accept(ctx, ln, server.Handle, log) })
	return ownDaemon{vnettest.SocketNetwork(path, backend.Info().Gateway, frame.MaxStreamLen), sync.OnceFunc(func() {
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

// TestWholeDaemon runs the suite through stream sockets, sessions and the embedded network.
func TestWholeDaemon(t *testing.T) {
	vnettest.TestNetwork(t, startDaemon)
}
