// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"context"
	"errors"
	"io"
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
	"golang.org/x/sys/unix"
)

// A daemon answers connections as a test says.
type daemon struct {
	socket string
	ln     map[string]*net.UnixListener
}

// serve starts a daemon whose sockets attach and adopt answer by answer. Nothing may be left of the client's descriptors when
// the test ends.
func serve(t *testing.T, answer func(c *net.UnixConn)) *daemon {
	t.Helper()
	before := openFiles(t)
	dir, err := os.MkdirTemp("/tmp", "client")
	require.NoError(t, err)
	d := &daemon{socket: filepath.Join(dir, "s"), ln: map[string]*net.UnixListener{}}
	require.NoError(t, os.WriteFile(d.socket, nil, 0o600)) // whatever it is, it is there
	require.NoError(t, os.Mkdir(d.socket+".d", 0o700))
	var running sync.WaitGroup
	for _, name := range []string{"attach", "adopt"} {
		ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(d.socket+".d", name), Net: "unix"})
		require.NoError(t, err)
		d.ln[name] = ln
		running.Go(func() {
			for {
				c, err := ln.AcceptUnix()
				if err != nil {
					return
				}
				answer(c)
				_ = c.Close()
			}
		})
	}
	t.Cleanup(func() {
		for _, ln := range d.ln {
			_ = ln.Close()
		}
		running.Wait()
		_ = os.RemoveAll(dir)
		assert.LessOrEqual(t, openFiles(t), before, "descriptors are left")
	})
	return d
}

const goodLine = `{"version":1,"transport":"dgram","backend":"usernet","mode":"shared","isolated":false,"offload":false,"future":1}` + "\n"

// send answers with line and a socket of kind, if that is not 0, once the request has come.
func send(line string, kind int) func(c *net.UnixConn) {
	return func(c *net.UnixConn) {
		m, _ := ReadMessage(c, MaxLine)
		m.Close()
		fd := None
		if kind != 0 {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
			if err != nil {
				return
			}
			defer func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) }()
			fd = fds[0]
		}
		_ = WriteMessage(c, []byte(line), fd)
	}
}

func TestAttach(t *testing.T) {
	asked := make(chan string, 1)
	d := serve(t, func(c *net.UnixConn) {
		m, _ := ReadMessage(c, MaxLine)
		asked <- string(m.Line)
		ours, theirs, err := Pair(Datagram)
		if err != nil {
			return
		}
		_ = WriteMessage(c, []byte(goodLine), theirs)
		_, _ = unix.Close(ours), unix.Close(theirs)
		_, _ = Discard(c, make([]byte, 1)) // until the client ends it
	})
	a, err := Attach(t.Context(), d.socket, Request{Name: "x"})
	require.NoError(t, err)
	assert.Equal(t, `{"version":1,"transport":"dgram","name":"x"}`, <-asked)
	assert.Equal(t, "usernet", a.Reply.Backend)
	assert.Equal(t, goodLine, string(a.Line)+"\n", "as it came")
	for _, f := range []*os.File{a.File, a.Lifeline} {
		rc, err := f.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, rc.Control(func(fd uintptr) {
			flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
			assert.NoError(t, err)
			assert.NotZero(t, flags&unix.FD_CLOEXEC)
		}))
	}
	require.NoError(t, a.Lifeline.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err = a.Lifeline.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is open, and can be waited for")
	require.NoError(t, a.Close())
}

// TestBadAnswers come from something that is no daemon of this protocol, or from one that refuses.
func TestBadAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(c *net.UnixConn)
		says   string
	}{
		{"no answer", func(*net.UnixConn) {}, ""},
		{"not JSON", send("hello\n", unix.SOCK_DGRAM), "none of this protocol"},
		{"cut", send(`{"version":1`, unix.SOCK_DGRAM), "without a line end"},
		{"without a descriptor", send(goodLine, 0), "without a descriptor"},
		{"another kind of socket", send(goodLine, unix.SOCK_STREAM), "no dgram socket"},
		{"too long", send(strings.Repeat("x", MaxReply+1), unix.SOCK_DGRAM), "longer than"},
		{"NUL", send("\x00", unix.SOCK_DGRAM), "none of this protocol"},
		{"a file", func(c *net.UnixConn) {
			m, _ := ReadMessage(c, MaxLine)
			m.Close()
			_ = WriteMessage(c, []byte(goodLine), 0)
		}, "no dgram socket"},
		{"an error", send(`{"version":1,"error":{"code":"full","text":"no room"}}`+"\n", 0), "full: no room"},
		{"an error with a descriptor", send(`{"version":1,"error":{"code":"full","text":"no room"}}`+"\n", unix.SOCK_DGRAM), "full: no room"},
		{"an error before the request", func(c *net.UnixConn) {
			_ = WriteMessage(c, []byte(`{"version":1,"error":{"code":"internal","text":"bye"}}`+"\n"), None)
		}, "internal: bye"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := serve(t, c.answer)
			_, err := Attach(t.Context(), d.socket, Request{})
			require.Error(t, err)
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, d.socket+".d/attach")
			_, told := errors.AsType[*Error](err)
			assert.Equal(t, strings.Contains(c.name, "an error"), told, "only what the daemon says is its error")
		})
	}
}

// TestStopping: a daemon that becomes another version is asked again, for a while.
func TestStopping(t *testing.T) {
	defer func(d time.Duration) { replaceTime = d }(replaceTime)
	var asked atomic.Int64
	d := serve(t, func(c *net.UnixConn) {
		m, _ := ReadMessage(c, MaxLine)
		m.Close()
		if asked.Add(1) < 3 {
			_ = WriteMessage(c, []byte(`{"version":1,"error":{"code":"stopping","text":"ask again"}}`+"\n"), None)
			return
		}
		_ = WriteMessage(c, []byte(`{"version":1,"error":{"code":"full","text":"no room"}}`+"\n"), None)
	})
	_, err := Attach(t.Context(), d.socket, Request{})
	require.ErrorContains(t, err, "full: no room")
	assert.EqualValues(t, 3, asked.Load())
	asked.Store(-1 << 20)
	replaceTime = 50 * time.Millisecond
	_, err = Attach(t.Context(), d.socket, Request{})
	require.ErrorContains(t, err, "stopping: ask again")
}

func TestContext(t *testing.T) {
	end := make(chan struct{})
	d := serve(t, func(*net.UnixConn) { <-end })
	defer close(end)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errors.New("too long for me"))
	defer cancel()
	_, err := Attach(ctx, d.socket, Request{})
	require.ErrorContains(t, err, "too long for me")
	_, err = Attach(ctx, d.socket, Request{})
	require.Error(t, err, "ended before")
}

func TestConnectErrors(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "client")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	there := filepath.Join(dir, "s")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	stale := filepath.Join(dir, "stale")
	require.NoError(t, os.Mkdir(stale, 0o700))
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(stale, "attach"), Net: "unix"})
	require.NoError(t, err)
	ln.SetUnlinkOnClose(false)
	require.NoError(t, ln.Close())
	for _, c := range []struct {
		name, socket string
		is           error
		says         []string
	}{
		{"nothing there", dir + "/none", unix.ENOENT, []string{"no daemon runs at " + dir + "/none"}},
		{"no socket for it", there, ErrNoSocket, []string{there + ".d/attach", "--runtime-dir"}},
		{"a directory without it", dir, ErrNoSocket, []string{dir + "/attach"}},
		{"none listens", stale, unix.ECONNREFUSED, []string{"no daemon listens"}},
		{"too long", "/" + strings.Repeat("x", 120), nil, []string{"too long", "shorter"}},
		{"a name that begins with @", "@x", unix.ENOENT, []string{"@x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Attach(t.Context(), c.socket, Request{})
			require.Error(t, err)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			for _, s := range c.says {
				assert.ErrorContains(t, err, s)
			}
			assert.Equal(t, errors.Is(c.is, ErrNoSocket), errors.Is(err, ErrNoSocket))
		})
	}
}

// TestConnect is for daemons without the other sockets.
func TestConnect(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "client")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	_, err = Connect(t.Context(), dir+"/s")
	require.ErrorContains(t, err, "no daemon runs")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/s", Net: "unix"})
	require.NoError(t, err)
	defer ln.Close()
	f, err := Connect(t.Context(), dir+"/s")
	require.NoError(t, err)
	c, err := ln.Accept()
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = f.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, f.Close())
}

// TestBusyDaemon: a backlog that is full is waited for.
func TestBusyDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "client")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	unix.CloseOnExec(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: dir + "/attach"}))
	require.NoError(t, unix.Listen(fd, 0))
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	first, err := net.Dial("unix", dir+"/attach") // takes the one place
	require.NoError(t, err)
	defer first.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Attach(ctx, dir, Request{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestRefusedForAMoment: on macOS a full backlog refuses, as a socket does that no process listens on yet.
func TestRefusedForAMoment(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "client")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	unix.CloseOnExec(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: dir + "/s"}))
	_, err = dialBusy(t.Context(), dir+"/s", time.Millisecond)
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	within := time.Hour
	if runtime.GOOS != "linux" {
		within = refusedTime // what Attach takes, where a full backlog is refused as well
	}
	time.AfterFunc(50*time.Millisecond, func() { assert.NoError(t, unix.Listen(fd, 1)) })
	c, err := dialBusy(t.Context(), dir+"/s", within)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
