// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/frame"
	passed "github.com/socket-vmnet2/socket_vmnet2/internal/passing/client"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing/proto"
)

// errorCode is the code that the daemon answered with, empty if err is none of its answers.
func errorCode(err error) proto.Code {
	if e, ok := errors.AsType[*proto.Error](err); ok {
		return e.Code
	}
	return ""
}

// settlesAt waits until the daemon has n descriptors again.
func (p *process) settlesAt(t *testing.T, n int) {
	t.Helper()
	assert.Eventually(t, func() bool { return p.files(t) <= n }, patience, 20*time.Millisecond,
		"%d descriptors, %d before", p.files(t), n)
}

// TestAThousandAttachAtOnce: each is answered, and those that are served beside them notice nothing.
func TestAThousandAttachAtOnce(t *testing.T) {
	const clients, room = 1000, 60
	p := startPassing(t, "--max-clients=60")
	tk := p.talkers(t)
	before := p.base(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var served, full atomic.Int32
	var asking, holding sync.WaitGroup
	release := make(chan struct{})
	connecting := make(chan struct{}, clients)
	if runtime.GOOS == "darwin" { // kern.ipc.somaxconn is 128: further ones are refused, whatever the daemon does
		connecting = make(chan struct{}, 100)
	}
	for i := range clients {
		asking.Add(1)
		holding.Go(func() {
			connecting <- struct{}{}
			r := proto.Request{Transport: proto.Datagram}
			if i%2 == 0 {
				r.Transport = proto.Stream
			}
			a, err := passed.Attach(ctx, p.sock, r)
			<-connecting
			asking.Done()
			if err != nil {
				assert.Equal(t, proto.Full, errorCode(err), "%v", err)
				full.Add(1)
				return
			}
			served.Add(1)
			<-release
			_ = a.Close()
		})
	}
	asking.Wait()
	tk.check("beside a thousand")
	close(release)
	holding.Wait()
	assert.Equal(t, int32(room-2), served.Load())
	assert.Equal(t, int32(clients-room+2), full.Load())
	p.settlesAt(t, before)
	tk.check("after a thousand")
	assert.Less(t, strings.Count(p.stderr.String(), "\n"), 400, "lines in the log")
}

// TestAdoptedBoundSocket: the first sender is served at the path that was handed over, and nobody else.
func TestAdoptedBoundSocket(t *testing.T) {
	p := startPassing(t, "--allow-uid=0")
	tk := p.talkers(t)
	dir := execDir(t)
	bound, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/bound", Net: "unixgram"})
	require.NoError(t, err)
	f, err := bound.File()
	require.NoError(t, err)
	a, err := passed.Adopt(t.Context(), p.sock, f, &proto.Request{Wait: true, Name: "vm"})
	require.NoError(t, err)
	assert.NotEmpty(t, a.Reply.MACAddress)
	_, _ = f.Close(), bound.Close() // which leaves the path alone: File has a duplicate of it
	if _, err := os.Lstat(dir + "/bound"); err != nil {
		t.Fatal("the test has lost its socket: ", err)
	}
	dial := func(name string) *net.UnixConn {
		c, err := net.DialUnix("unixgram", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixgram"},
			&net.UnixAddr{Name: dir + "/bound", Net: "unixgram"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		return c
	}
	vm := dial("vm")
	_, err = vm.Write([]byte("VFKT"))
	require.NoError(t, err)
	_, err = vm.Write(wire(0, 0xcc, "from the machine")[frame.PrefixLen:])
	require.NoError(t, err)
	tk.a.receive("from the machine")
	tk.a.send(0xcc, "to the machine")
	buf := make([]byte, 70000)
	for {
		n, err := vm.Read(buf)
		require.NoError(t, err)
		if string(buf[frame.MinLen:n]) == "to the machine" {
			break
		}
	}
	_, err = net.DialUnix("unixgram", &net.UnixAddr{Name: dir + "/other", Net: "unixgram"},
		&net.UnixAddr{Name: dir + "/bound", Net: "unixgram"})
	if runtime.GOOS == "linux" {
		require.Error(t, err, "it is somebody's")
	}
	p.says(t, dir+"/vm")
	require.NoError(t, a.Lifeline.Close())
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "client gone") }, patience, 5*time.Millisecond)
	_, err = vm.Write(make([]byte, 60))
	assert.Error(t, err, "nobody is there any more")
}
