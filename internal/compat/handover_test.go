// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

func init() { children["handover"] = handoverChild }

// saved is what handoverChild hands over.
type saved struct {
	Listener int
	Lock     SavedLock
	Pidfile  SavedPidfile
}

// handoverChild owns a socket and a pidfile in the directory args[0], becomes another image when it reads a line, and gives
// all back when it reads one more. args[1] says what happens to the files in between.
func handoverChild(args []string) int {
	fail := func(err error) int { fmt.Println(err); return 1 }
	sock, pid := args[0]+"/s", args[0]+"/p"
	in, err := handover.Inherited()
	if err != nil {
		return fail(err)
	}
	var l *SocketLock
	var p *Pidfile
	stdin := bufio.NewReader(os.Stdin)
	if in != nil {
		var v saved
		if err := in.Get(&v); err != nil {
			return fail(err)
		}
		if l, err = RestoreSocketLock(in, v.Lock, discard()); err != nil {
			return fail(err)
		}
		if p, err = RestorePidfile(in, v.Pidfile, discard()); err != nil {
			return fail(err)
		}
		if _, err := RestoreSocketLock(in, v.Lock, discard()); err == nil {
			return fail(fmt.Errorf("the same descriptor twice"))
		}
		ln, err := handover.Socket[*net.UnixListener](in, v.Listener)
		if err != nil {
			return fail(err)
		}
		defer ln.Close()
		fmt.Println("new", os.Getpid())
		if _, err := stdin.ReadString('\n'); err != nil {
			return fail(err)
		}
		l.RemoveIfOurs()
		p.Release()
		l.Unlock()
		return 0
	}
	if p, err = AcquirePidfile(pid, discard()); err != nil {
		return fail(err)
	}
	if l, err = LockSocket(context.Background(), sock, false, discard()); err != nil {
		return fail(err)
	}
	ln, err := l.Bind(Owner{UID: -1, GID: -1, Mode: 0o770})
	if err != nil {
		return fail(err)
	}
	if args[1] != "unpublished" {
		if err := p.Publish(os.Getpid()); err != nil {
			return fail(err)
		}
	}
	fmt.Println("old", os.Getpid())
	if b := make([]byte, 1); args[1] != "" {
		if _, err := os.Stdin.Read(b); err != nil { // not one byte more: the next image reads on
			return fail(err)
		}
	}
	var o handover.Out
	v := saved{o.Conn(ln), l.Save(&o), p.Save(&o)} // while the listener is open, no other file has the socket's number
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	return fail(handover.Exec(&o, v, self, os.Args, os.Environ()))
}

// TestHandoff has a process that owns a socket and a pidfile become another program. No other process gets either at any time.
func TestHandoff(t *testing.T) {
	for _, c := range []struct {
		name string
		what string
		then func(t *testing.T, dir string) // before the new image gives all back
		left []string
	}{
		{"as it is", "as it is", func(*testing.T, string) {}, []string{"s.lock"}},
		{"not ready", "unpublished", func(*testing.T, string) {}, []string{"s.lock"}},
		{"others took the paths", "replaced", func(t *testing.T, dir string) {
			for _, name := range []string{"/s", "/p"} {
				require.NoError(t, os.Remove(dir+name))
				require.NoError(t, os.WriteFile(dir+name, []byte("another's"), 0o600))
			}
		}, []string{"p", "s", "s.lock"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := child(t, "handover", dir, c.what)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill() }()
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			require.Equal(t, "old "+strconv.Itoa(cmd.Process.Pid), lines.Text())
			owned(t, dir, cmd.Process.Pid, c.what != "unpublished")

			_, err = in.Write([]byte("x"))
			require.NoError(t, err)
			for range 50 { // throughout
				owned(t, dir, cmd.Process.Pid, c.what != "unpublished")
			}
			require.True(t, lines.Scan())
			require.Equal(t, "new "+strconv.Itoa(cmd.Process.Pid), lines.Text())
			owned(t, dir, cmd.Process.Pid, c.what != "unpublished")
			c.then(t, dir)
			_, err = in.Write([]byte("\n"))
			require.NoError(t, err)
			require.False(t, lines.Scan(), lines.Text())
			require.NoError(t, cmd.Wait())
			assert.Equal(t, c.left, entries(t, dir))
			if c.what != "replaced" {
				l, err := LockSocket(t.Context(), dir+"/s", false, discard())
				require.NoError(t, err)
				l.Unlock()
			}
		})
	}
}

// owned checks that no other process gets the socket or the pidfile in dir.
func owned(t *testing.T, dir string, pid int, published bool) {
	t.Helper()
	l := &SocketLock{at: hostfs.Place{Name: dir + "/s"}}
	require.ErrorIs(t, l.tryLock(), syscall.EAGAIN)
	if published {
		_, err := AcquirePidfile(dir+"/p", discard())
		require.EqualError(t, err, openText(dir+"/p", "Resource temporarily unavailable"))
		b, err := os.ReadFile(dir + "/p")
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(pid), string(b))
	} else {
		require.NoFileExists(t, dir+"/p")
	}
	_, err := os.Lstat(filepath.Join(dir, "s"))
	require.NoError(t, err)
}

// TestSaveLeavesAll: what was saved works on if the exec fails.
func TestSaveLeavesAll(t *testing.T) {
	dir := t.TempDir()
	p, err := AcquirePidfile(dir+"/p", discard())
	require.NoError(t, err)
	require.NoError(t, p.Publish(os.Getpid()))
	l, err := LockSocket(t.Context(), dir+"/s", false, discard())
	require.NoError(t, err)
	ln, err := l.Bind(Owner{UID: -1, GID: -1, Mode: 0o770})
	require.NoError(t, err)
	defer ln.Close()
	var o handover.Out
	sl, sp := l.Save(&o), p.Save(&o)
	require.Error(t, handover.Exec(&o, nil, "/nowhere", []string{"x"}, nil))
	owned(t, dir, os.Getpid(), true)
	b, err := json.Marshal([]any{sl, sp})
	require.NoError(t, err)
	assert.Regexp(t, `^\[\{"path":".*/s","fd":\d+,"bound":true,"dev":\d+,"ino":\d+\},\{"path":".*/p","fd":\d+,"pid":\d+\}\]$`, string(b))
	c, err := net.DialTimeout("unix", dir+"/s", 10*time.Second)
	require.NoError(t, err)
	_ = c.Close()
	l.RemoveIfOurs()
	p.Release()
	l.Unlock()
	assert.Equal(t, []string{"s.lock"}, entries(t, dir))
}
