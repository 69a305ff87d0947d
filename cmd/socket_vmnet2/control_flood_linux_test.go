// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// A flood is what one program does to the control socket: it connects as fast as it can, asks, and reads no answer. It keeps as many
// connections as it may, so that the queue of the socket is full whenever the daemon takes from it.
type flood struct {
	path        string
	made, tried atomic.Int64 // connections
	full        chan struct{}
	once        sync.Once
}

// run floods until quit, with keep connections open.
func (f *flood) run(keep int, quit chan struct{}) {
	conns := make([]net.Conn, keep)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for i := 0; ; {
		select {
		case <-quit:
			return
		default:
		}
		f.tried.Add(1)
		c, err := net.Dial("unix", f.path)
		if errors.Is(err, unix.EAGAIN) {
			f.once.Do(func() { close(f.full) })
			runtime.Gosched()
			continue
		}
		if err != nil {
			continue
		}
		f.made.Add(1)
		_, _ = c.Write([]byte("GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"))
		if i = (i + 1) % keep; conns[i] != nil {
			_ = conns[i].Close()
		}
		conns[i] = c
	}
}

// floodControl has one program of another user of the socket's group flood the control socket until the test ends, and waits until the
// socket's queue is full.
func (p *process) floodControl(t *testing.T) *flood {
	t.Helper()
	const threads, keep = 4, 1500
	f := &flood{path: p.sock + ".d/control", full: make(chan struct{})}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() { asUser(attacker, func() { f.run(keep, quit) }) })
	}
	t.Cleanup(func() { close(quit); wg.Wait() })
	select {
	case <-f.full:
	case <-time.After(patience):
		require.Fail(t, "the queue of the control socket does not get full")
	}
	return f
}

// TestControlFlood: a member of the group that floods the control socket keeps root from nothing, nor does the daemon run out of
// descriptors. The clients stay, and after each upgrade it is the same.
func TestControlFlood(t *testing.T) {
	needRoot(t)
	p, _ := startOwn(t, "--socket-group="+ownGroup(t))
	tk := p.talkers(t)
	tk.check("before")
	before := p.base(t)
	f := p.floodControl(t)
	const times = 5
	var longest [2]time.Duration
	for i := range times {
		began := time.Now()
		var s status.Status
		_, err := p.ask(t, http.MethodGet, "/v1/status", nil, &s)
		require.NoError(t, err, "status %d", i)
		assert.Len(t, s.Clients, 2)
		longest[0] = max(longest[0], time.Since(began))
		assert.Less(t, p.files(t), before+200)
		began = time.Now()
		_, stderr, err := p.upgrade(t)
		require.NoError(t, err, "upgrade %d: %s", i, stderr)
		longest[1] = max(longest[1], time.Since(began))
	}
	tk.check("after")
	t.Logf("%d times, beside %d connections of %d tries: a status took %v at most, an upgrade %v", times, f.made.Load(), f.tried.Load(),
		longest[0].Round(time.Millisecond), longest[1].Round(time.Millisecond))
	assert.NotContains(t, p.stderr.String(), "accepting on the control socket failed")
}

// TestControlForRoot: the socket that only root and the daemon's user can connect to. It goes over an upgrade and is removed at the end;
// without it the other one does.
func TestControlForRoot(t *testing.T) {
	p, path := startOwn(t)
	control, own := p.sock+".d/control", p.sock+".d/control.root"
	look := func() {
		fi, err := os.Stat(own)
		require.NoError(t, err)
		assert.Equal(t, os.ModeSocket|0o600, fi.Mode())
		require.NoError(t, visit(own))
	}
	look()
	replaceProgram(t, path)
	_, stderr, err := p.upgrade(t)
	require.NoError(t, err, stderr)
	look()

	require.NoError(t, os.Rename(control, control+".away"))
	_, err = p.ask(t, http.MethodGet, "/v1/version", nil, nil)
	require.NoError(t, err, "by its own")
	require.NoError(t, os.Rename(control+".away", control))
	require.NoError(t, os.Remove(own))
	_, err = p.ask(t, http.MethodGet, "/v1/version", nil, nil)
	require.NoError(t, err, "by the other one")
	_, stderr, err = p.upgrade(t)
	require.NoError(t, err, stderr)

	p, _ = startOwn(t)
	p.stop(t)
	assert.NoDirExists(t, p.sock+".d")
}

// asUser runs f on a thread of that user's, which is in root's group.
func asUser(uid int, f func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if uid != os.Geteuid() {
			runtime.LockOSThread() // it ends with the goroutine, and the rights with it
			_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		}
		f()
	})
	wg.Wait()
}

// ownGroup is the name of this process's group.
func ownGroup(t *testing.T) string {
	t.Helper()
	g, err := user.LookupGroupId(strconv.Itoa(os.Getegid()))
	require.NoError(t, err)
	return g.Name
}
