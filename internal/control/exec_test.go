// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/handoff"
)

// overExec is what the images of daemonChild hand over.
type overExec struct {
	Listener int
	Call     SavedCall
	Count    int
}

// daemonChild serves on a socket at os.Args[1]. An upgrade replaces it by itself, and the new image answers. It ends when
// stdin does.
func daemonChild() int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	in, err := handoff.Inherited()
	if err != nil {
		return fail(err)
	}
	var h overExec
	var ln *net.UnixListener
	var call *Call
	if in == nil {
		ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: os.Args[1], Net: "unix"})
	} else if err = in.Get("control", &h); err == nil {
		if call, err = RestoreCall(in, h.Call); err == nil {
			ln, err = in.UnixListener(h.Listener)
		}
	}
	if err != nil {
		return fail(err)
	}
	ln.SetUnlinkOnClose(false)
	if in != nil {
		in.CloseRest()
	}
	var s *Server
	s = New(Options{
		Listener: ln, Version: fmt.Sprint("v", h.Count),
		Upgrade: func(_ context.Context, c *Call) {
			s.Detach()
			var o handoff.Out
			next := overExec{Count: h.Count + 1}
			var err error
			if next.Listener, err = o.Conn(ln); err == nil {
				next.Call, err = c.Save(&o)
			}
			if err == nil {
				err = o.Put("control", next)
			}
			if err == nil {
				fmt.Println("paused")
				for wait := fs.ErrNotExist; errors.Is(wait, fs.ErrNotExist); { // clients come meanwhile
					time.Sleep(time.Millisecond)
					_, wait = os.Stat(fmt.Sprint(os.Args[1], ".", next.Count))
				}
				err = handoff.Exec(&o, os.Getenv("CONTROL_TEST_SELF"), os.Args, os.Environ())
			}
			s.Attach()
			c.Refuse(500, "failed", err.Error())
		},
	})
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(context.Background()) })
	call.Answer(map[string]int{"count": h.Count, "pid": os.Getpid()})
	if in == nil {
		fmt.Println("ready")
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	s.Close(context.Background())
	wg.Wait()
	return 0
}

// TestCallOverExec: the new image answers who asked for it, and those who come meanwhile wait for it.
func TestCallOverExec(t *testing.T) {
	path := socketPath(t)
	cmd := image(t, "daemon", path)
	cmd.Env = append(cmd.Env, "CONTROL_TEST_SELF="+cmd.Path)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	says := bufio.NewScanner(out)
	require.True(t, says.Scan())
	for i := 1; i <= 5; i++ {
		version := fmt.Sprintf(`"version":"v%d"`, i)
		var all sync.WaitGroup
		all.Go(func() {
			status, answer, err := ask(t, path, http.MethodPost, "/v1/upgrade")
			assert.NoError(t, err)
			assert.Equal(t, 200, status)
			assert.JSONEq(t, fmt.Sprintf(`{"count":%d,"pid":%d}`, i, cmd.Process.Pid), answer)
		})
		require.True(t, says.Scan())
		require.Equal(t, "paused", says.Text())
		for range 5 { // they are connected before the old image goes
			c, err := net.Dial("unix", path)
			require.NoError(t, err)
			defer c.Close()
			require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
			all.Go(func() {
				_, err := fmt.Fprint(c, "GET /v1/version HTTP/1.1\r\nHost: x\r\n\r\n")
				assert.NoError(t, err)
				b, err := io.ReadAll(c)
				assert.NoError(t, err)
				assert.Contains(t, string(b), version, "the new image answers")
			})
		}
		require.NoError(t, os.WriteFile(fmt.Sprint(path, ".", i), nil, 0o600))
		all.Wait()
		_, answer, err := ask(t, path, http.MethodGet, "/v1/version")
		require.NoError(t, err)
		assert.Contains(t, answer, version)
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}
