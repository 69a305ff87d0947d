// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proto

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNoChildBetweenReceiveAndCloseOnExec: while a child is being started, nothing is received.
func TestNoChildBetweenReceiveAndCloseOnExec(t *testing.T) {
	a, b := connPair(t)
	require.NoError(t, WriteMessage(a, []byte("x\n"), null(t, 1)[0]))
	got := make(chan Message)
	syscall.ForkLock.Lock()
	go func() {
		m, err := ReadMessage(b, MaxLine)
		assert.NoError(t, err)
		got <- m
	}()
	select {
	case m := <-got:
		syscall.ForkLock.Unlock()
		m.Close()
		require.Fail(t, "a descriptor came that the child inherits")
	case <-time.After(50 * time.Millisecond): // as long as a child takes
		syscall.ForkLock.Unlock()
	}
	m := <-got
	defer m.Close()
	flags, err := unix.FcntlInt(uintptr(m.FD), unix.F_GETFD, 0)
	require.NoError(t, err)
	assert.Equal(t, unix.FD_CLOEXEC, flags)
}
