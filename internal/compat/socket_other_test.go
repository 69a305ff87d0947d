// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package compat

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// TestSocketFullForAMoment: a daemon that does not accept for half a second, and refuses meanwhile, is a live one.
func TestSocketFullForAMoment(t *testing.T) {
	path := filepath.Join(vnettest.ShortDir(t), "s")
	fd, err := hostfs.NewSocket(unix.SOCK_STREAM)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	require.NoError(t, unix.Bind(fd, hostfs.Address(path)))
	require.NoError(t, unix.Listen(fd, 0))
	for refused := false; !refused; {
		c, err := hostfs.NewSocket(unix.SOCK_STREAM)
		require.NoError(t, err)
		defer func() { _ = unix.Close(c) }()
		require.NoError(t, unix.SetNonblock(c, true))
		if err := unix.Connect(c, hostfs.Address(path)); err != nil {
			require.ErrorIs(t, err, unix.ECONNREFUSED)
			refused = true
		}
	}
	accepted := make(chan error, 1)
	time.AfterFunc(500*time.Millisecond, func() {
		c, _, err := unix.Accept(fd)
		if err == nil {
			err = unix.Close(c)
		}
		accepted <- err
	})
	_, err = LockSocket(t.Context(), path, false, discard())
	require.EqualError(t, err, inUse)
	require.NoError(t, <-accepted)
}
