// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package darwinapi_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

func prepare(t testing.TB) { simulate(t) }

// simulate puts the simulator in libSystem's place.
func simulate(t testing.TB) *vmnetsim.Control {
	t.Helper()
	lib := vmnetsim.Library(t, vmnetsim.Full)
	dir := t.TempDir()
	c, err := vmnetsim.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	_, err = ffi.OpenSimulator(lib, dir) // so that it looks at this control file
	require.NoError(t, err)
	require.NoError(t, darwinapi.UseSimulator(lib))
	return c
}

func TestUnavailable(t *testing.T) {
	require.NoError(t, darwinapi.UseSimulator("libc.so.6")) // it has neither
	assert.False(t, darwinapi.Available())
	_, err := darwinapi.ActivateSocket("daemon")
	assert.ErrorIs(t, err, darwinapi.ErrNotLaunchd)
	assert.Empty(t, darwinapi.Executable(os.Getpid()))
	assert.ErrorContains(t, darwinapi.UseSimulator("/none.so"), "/none.so")
}

// TestSlowReceiver sends more than the socket holds.
func TestSlowReceiver(t *testing.T) {
	c := simulate(t)
	a, b := socketPair(t)
	r := newReceiver(t, 4, 0, 100)
	require.NoError(t, unix.SetsockoptInt(a, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096))
	s := newSender(t, 256)
	for range 256 {
		s.Add(make([]byte, 1000))
	}
	sent, err := 0, error(nil)
	for err == nil {
		var n int
		n, err = s.Send(a)
		sent += n
	}
	assert.Equal(t, syscall.ENOBUFS, err, "the peer does not read")
	assert.Positive(t, sent)
	assert.Equal(t, 256-sent, s.Len(), "what is left can be sent later")
	for {
		n, err := r.Receive(b)
		if err != nil {
			break
		}
		for k := range n {
			assert.Len(t, r.Message(k), 100, "cut to the slot")
		}
		_, _ = s.Send(a)
	}
	assert.Zero(t, s.Len())
	assert.NotZero(t, c.Calls()["recvmsg_x"]*c.Calls()["sendmsg_x"])
}

func TestExecutable(t *testing.T) {
	simulate(t)
	self, err := os.Executable()
	require.NoError(t, err)
	assert.Equal(t, self, darwinapi.Executable(os.Getpid()))
	assert.Empty(t, darwinapi.Executable(-1), "there is no such process")
}

// TestActivateSocket runs in a process of its own, as a process gets its sockets once.
func TestActivateSocket(t *testing.T) {
	if os.Getenv("DARWINAPI_CHILD") == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestActivateSocket$")
		child.Env = append(os.Environ(), "DARWINAPI_CHILD=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	c := simulate(t)
	_, err := darwinapi.ActivateSocket("daemon")
	require.ErrorIs(t, err, darwinapi.ErrNotLaunchd)

	var files []*os.File
	for range 3 {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer f.Close()
		files = append(files, f)
	}
	fd := func(i int) int { return int(files[i].Fd()) }
	c.SetSockets(vmnetsim.Socket{Name: "daemon", FD: fd(0)}, vmnetsim.Socket{Name: "other", FD: fd(1)},
		vmnetsim.Socket{Name: "daemon", FD: fd(2)})
	fds, err := darwinapi.ActivateSocket("daemon")
	require.NoError(t, err)
	assert.ElementsMatch(t, []int{fd(0), fd(2)}, fds)
	for _, fd := range fds {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		assert.Equal(t, unix.FD_CLOEXEC, flags)
	}
	_, err = darwinapi.ActivateSocket("daemon")
	require.ErrorIs(t, err, syscall.EALREADY)
	_, err = darwinapi.ActivateSocket("client")
	require.ErrorIs(t, err, syscall.ENOENT)
	assert.ErrorContains(t, err, `activate socket "client"`)
}
