// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/fakeguest"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// stateRoot is a directory that only this user can change, all the way up from it, as the daemon wants for its state.
func stateRoot(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	dir, err := os.MkdirTemp(home, ".socket_vmnet2-test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func guest(t *testing.T, p *process, last byte) *fakeguest.Guest {
	t.Helper()
	return vnettest.Dial(t, p.sock, fakeguest.Options{MAC: net.HardwareAddr{2, 0, 0, 0, 1, last}, Timeout: patience})
}
