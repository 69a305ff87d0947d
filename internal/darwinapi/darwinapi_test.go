// SPDX-License-Identifier: Apache-2.0

//go:build vmnetsim && !darwin

package darwinapi_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/darwinapi"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/ffi"
	"github.com/socket-vmnet2/socket_vmnet2/test/vmnetsim"
)

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

// socketPair is two connected datagram sockets.
func socketPair(t testing.TB) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
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

func TestUnavailable(t *testing.T) {
	require.NoError(t, darwinapi.UseSimulator("libc.so.6")) // it has neither
	assert.False(t, darwinapi.Available())
	_, err := darwinapi.ActivateSocket("daemon")
	assert.ErrorIs(t, err, darwinapi.ErrNotLaunchd)
	s := newSender(t, 1)
	s.Add([]byte{1})
	_, err = s.Send(0)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = newReceiver(t, 1, 0, 1).Receive(0)
	assert.ErrorIs(t, err, errors.ErrUnsupported)
	assert.ErrorContains(t, darwinapi.UseSimulator("/none.so"), "/none.so")
}

func TestSendReceive(t *testing.T) {
	c := simulate(t)
	require.True(t, darwinapi.Available())
	a, b := socketPair(t)
	s, r := newSender(t, 8), newReceiver(t, 8, 4, 1514)
	n, err := s.Send(a)
	require.NoError(t, err)
	assert.Zero(t, n, "nothing to send")

	var want [][]byte
	for k := range 8 {
		msg := bytes.Repeat([]byte{byte(k)}, 1+k*216)
		want = append(want, msg)
		require.True(t, s.Add(msg))
	}
	assert.False(t, s.Add([]byte{1}), "full")
	assert.Equal(t, 8, s.Len())
	n, err = s.Send(a)
	require.NoError(t, err)
	assert.Equal(t, []int{8, 0}, []int{n, s.Len()})
	s.Reset()

	for round := range 2 { // slots are ready again
		n, err = r.Receive(b)
		require.NoError(t, err)
		require.Equal(t, 8, n)
		for k := range n {
			m := r.Message(k)
			assert.Equal(t, want[k], m[4:])
			assert.Equal(t, len(m), cap(m), "an append must not reach the next one")
			binary.BigEndian.PutUint32(m, 0xffffffff) // the caller's
		}
		if round == 0 {
			for k := range want {
				want[k] = bytes.Repeat([]byte{0xa0 + byte(k)}, 1514-k)
				require.True(t, s.Add(want[k]))
			}
			_, err = s.Send(a)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, uint64(2), c.Calls()["recvmsg_x"])
	assert.Equal(t, uint64(2), c.Calls()["sendmsg_x"])
}

func TestErrnoIsPassedOn(t *testing.T) {
	simulate(t)
	a, b := socketPair(t)
	r := newReceiver(t, 4, 0, 100)
	_, err := r.Receive(b)
	assert.Equal(t, syscall.EAGAIN, err)
	_, err = r.Receive(-1)
	assert.Equal(t, syscall.EBADF, err)

	require.NoError(t, unix.SetsockoptInt(a, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096))
	s := newSender(t, 256)
	for range 256 {
		s.Add(make([]byte, 1000))
	}
	sent := 0
	for err = nil; err == nil; {
		var n int
		n, err = s.Send(a)
		sent += n
	}
	assert.Equal(t, syscall.ENOBUFS, err, "nobody reads")
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
}

func TestLimits(t *testing.T) {
	for _, n := range []int{-1, 0, 257} {
		_, err := darwinapi.NewSender(n)
		assert.ErrorContains(t, err, "want 1 to 256")
		_, err = darwinapi.NewReceiver(n, 4, 1514)
		assert.ErrorContains(t, err, "want 1 to 256")
	}
	_, err := darwinapi.NewReceiver(1, -1, 1514)
	require.Error(t, err)
	_, err = darwinapi.NewReceiver(1, 0, 0)
	require.Error(t, err)
	s, err := darwinapi.NewSender(1)
	require.NoError(t, err)
	r, err := darwinapi.NewReceiver(1, 0, 1)
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, s.Free())
		require.NoError(t, r.Free())
	}
	assert.False(t, s.Add([]byte{1}))
}

// TestSenderKeepsMessages collects garbage while only the Sender has the messages.
func TestSenderKeepsMessages(t *testing.T) {
	simulate(t)
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

func TestNoAllocation(t *testing.T) {
	simulate(t)
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

// BenchmarkSend is a call with 32 messages, sent and received.
func BenchmarkSend(b *testing.B) {
	simulate(b)
	x, y := socketPair(b)
	s, r := newSender(b, 32), newReceiver(b, 32, 4, 1514)
	msg := make([]byte, 1514)
	require.NoError(b, unix.SetsockoptInt(x, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20))
	b.ReportAllocs()
	for b.Loop() {
		for range 32 {
			s.Add(msg)
		}
		for s.Len() > 0 {
			if _, err := s.Send(x); err != nil {
				b.Fatal(err)
			}
			if _, err := r.Receive(y); err != nil {
				b.Fatal(err)
			}
		}
		s.Reset()
	}
}
