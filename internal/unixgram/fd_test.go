// SPDX-License-Identifier: Apache-2.0

package unixgram

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// onFd calls f with the descriptor of conn.
func onFd(t testing.TB, conn *net.UnixConn, f func(fd int) error) {
	t.Helper()
	rc, err := conn.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, rc.Control(func(fd uintptr) { err = f(int(fd)) }))
	require.NoError(t, err)
}

// connectFd connects a datagram socket to a path.
func connectFd(t testing.TB, conn *net.UnixConn, path string) {
	t.Helper()
	onFd(t, conn, func(fd int) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) })
}
