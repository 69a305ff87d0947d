// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// socketChild is a daemon that starts and stops, until it has done so 40 times. While it runs, a client that connects to the path must reach
// it, and there must be no other.
func socketChild(args []string) int {
	path, me := args[0], []byte(strconv.Itoa(os.Getpid()))
	won := 0
	for end := time.Now().Add(2 * patience); won < 40; {
		if time.Now().After(end) {
			fmt.Println("not enough in", 2*patience, "but", won)
			return 1
		}
		l, err := LockSocket(context.Background(), path, discard())
		var ln *net.UnixListener
		if err == nil {
			if ln, err = l.Bind(own()); err != nil {
				l.Unlock()
			}
		}
		if err != nil {
			if err.Error() != inUse {
				fmt.Println(err)
				return 1
			}
			time.Sleep(time.Millisecond)
			continue
		}
		won++
		if err := serveAlone(path, ln, me); err != nil {
			fmt.Println(err)
			return 1
		}
		if won%5 != 0 { // else as if it had been killed: the socket stays behind
			l.RemoveIfOurs()
		}
		_ = ln.Close()
		l.Unlock()
	}
	return 0
}

// serveAlone checks that nobody else serves and that the path leads to ln.
func serveAlone(path string, ln net.Listener, me []byte) error {
	witness := path + ".witness"
	f, err := os.OpenFile(witness, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("two daemons at once: %w", err)
	}
	defer func() { _ = os.Remove(witness) }()
	defer func() { _ = f.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(me)
			_ = c.Close()
		}
	}()
	for range 3 {
		c, err := net.Dial("unix", path)
		if err != nil {
			return fmt.Errorf("path is dead: %w", err)
		}
		got, err := io.ReadAll(c)
		_ = c.Close()
		if err != nil || !bytes.Equal(got, me) {
			return fmt.Errorf("the path leads to process %q, not %s: %w", got, me, err)
		}
	}
	return nil
}

func TestSocketRace(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "s")
	var cmds [2]*exec.Cmd
	var out [2]strings.Builder
	for i := range cmds {
		cmds[i] = child(t, "socket", path)
		cmds[i].Stdout, cmds[i].Stderr = &out[i], os.Stderr
		require.NoError(t, cmds[i].Start())
	}
	for i, cmd := range cmds {
		assert.NoError(t, cmd.Wait(), out[i].String())
	}
}

// TestSocketWindow watches the path while sockets are made at it: nobody else may ever have access.
func TestSocketWindow(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	stop := make(chan struct{})
	seen := make(chan map[os.FileMode]bool)
	var looks atomic.Int32
	go func() {
		modes := map[os.FileMode]bool{}
		for {
			select {
			case <-stop:
				seen <- modes
				return
			default:
				if fi, err := os.Lstat(path); err == nil {
					modes[fi.Mode().Perm()] = true
					looks.Add(1)
				}
			}
		}
	}()
	o := own()
	o.Mode = 0o640
	for i, end := 0, time.Now().Add(patience); i < 200 || looks.Load() < 200; i++ { // whoever gets to run
		require.True(t, time.Now().Before(end), "the socket was seen %d times", looks.Load())
		l, err := LockSocket(t.Context(), path, discard())
		require.NoError(t, err)
		ln, err := l.Bind(o)
		require.NoError(t, err)
		l.RemoveIfOurs()
		require.NoError(t, ln.Close())
		l.Unlock()
	}
	close(stop)
	for m := range <-seen {
		assert.Contains(t, []os.FileMode{0o600, 0o640}, m)
	}
}
