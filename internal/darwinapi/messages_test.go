// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package darwinapi_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
)

// socketPair is two connected datagram sockets.
func socketPair(t testing.TB) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	require.NoError(t, err)
	for _, fd := range fds { // macOS's are small
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 64<<10))
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 256<<10))
	}
	t.Cleanup(func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	})
	return fds[0], fds[1]
}

func newSender(t testing.TB, n int) *darwinapi.Sender {
	s, err := darwinapi.NewSender(n)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Free()) })
	return s
}

func newReceiver(t testing.TB, n, head, size int) *darwinapi.Receiver {
	r, err := darwinapi.NewReceiver(n, head, size)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Free()) })
	return r
}

func TestNoAllocation(t *testing.T) {
	prepare(t)
	a, b := socketPair(t)
	s, r := newSender(t, 8), newReceiver(t, 8, 4, 64)
	msg := make([]byte, 64)
	got := 0
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for range 8 {
			s.Add(msg)
		}
		_, _ = s.Send(a)
		s.Reset()
		n, _ := r.Receive(b)
		got += n
	}))
	assert.Equal(t, 101*8, got)
}

// TestSenderKeepsMessages collects garbage while only the Sender has the messages.
func TestSenderKeepsMessages(t *testing.T) {
	prepare(t)
	a, b := socketPair(t)
	s, r := newSender(t, 32), newReceiver(t, 32, 0, 64)
	for round := range 200 {
		for k := range 8 {
			s.Add(bytes.Repeat([]byte{byte(round + k)}, 64))
		}
		runtime.GC()
		_, err := s.Send(a)
		require.NoError(t, err)
		s.Reset()
		n, err := r.Receive(b)
		require.NoError(t, err)
		require.Equal(t, 8, n)
		for k := range n {
			require.Equal(t, bytes.Repeat([]byte{byte(round + k)}, 64), r.Message(k))
		}
	}
}
