// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A window is a terminal in which a command runs.
type window struct {
	*process
	master *os.File
	read   chan struct{} // closed when all of its output was read
}

// open runs socket_vmnet2 in a terminal of this size. It is nil where there are no terminals.
func open(t *testing.T, width, height uint16, env []string, args ...string) *window {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Logf("there are no terminals here: %v", err)
		return nil
	}
	t.Cleanup(func() { _ = master.Close() })
	w := &window{master: master}
	w.resize(t, width, height)
	raw, err := master.SyscallConn()
	require.NoError(t, err)
	n := 0
	require.NoError(t, raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Logf("there are no terminals here: %v", err)
		return nil
	}
	defer slave.Close()
	c := exec.Command(filepath.Join(binaries, "socket_vmnet2"), args...)
	c.Env = env
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w.process = runDaemon(t, c, "")
	w.read = make(chan struct{})
	go func() {
		defer close(w.read)
		_, _ = io.Copy(w.stdout, master) // until EIO: the last one has closed it
	}()
	t.Cleanup(func() { _ = w.Process.Kill(); <-w.read })
	return w
}

func (w *window) resize(t *testing.T, width, height uint16) {
	t.Helper()
	raw, err := w.master.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
	}))
	require.NoError(t, err)
}

// lines are what the command printed, when it has ended.
func (w *window) lines(t *testing.T) []string {
	t.Helper()
	w.exits(t, 0)
	<-w.read
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(w.stdout.String(), "\r\n", "\n")), "\n")
}

// TestScreen: on a terminal text has colours and fits, unless it is asked not to.
func TestScreen(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.talkers(t)
	p.serving(t, 2)
	for _, tt := range []struct {
		name  string
		width uint16
		env   []string
		args  []string
		color bool
	}{
		{"narrow", 40, []string{"TERM=xterm"}, nil, true},
		{"usual", 80, []string{"TERM=xterm", "LANG=C.UTF-8"}, nil, true},
		{"wide", 200, []string{"TERM=xterm", "LC_ALL=C.UTF-8"}, nil, true},
		{"very wide", 250, []string{"TERM=xterm"}, nil, true},
		{"no colour", 80, []string{"TERM=xterm", "NO_COLOR=1"}, nil, false},
		{"dumb", 80, []string{"TERM=dumb"}, nil, false},
		{"wide table", 40, []string{"TERM=dumb"}, []string{"--wide"}, false},
		{"no size", 0, []string{"TERM=dumb"}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := open(t, tt.width, 50, tt.env, append(append([]string{"clients"}, tt.args...), p.sock)...)
			if w == nil {
				return
			}
			lines := w.lines(t)
			require.Len(t, lines, 3)
			assert.Equal(t, tt.color, strings.Contains(w.stdout.String(), "\x1b[1m"))
			plain := strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "", "\x1b[33m", "").Replace(strings.Join(lines, "\n"))
			assert.NotContains(t, plain, "\x1b")
			all := len(tt.args) > 0 || tt.width == 0 || tt.width >= 200
			assert.Equal(t, all, strings.Contains(plain, "IFACE"))
			for line := range strings.Lines(plain) {
				assert.Equal(t, all && tt.width < 200 && tt.width > 0, tt.width > 0 && len(strings.TrimSpace(line)) > int(tt.width), "%q", line)
			}
		})
	}
}

// TestScreenWatch: it is drawn in place, again when the window changes, and no line is below it.
func TestScreenWatch(t *testing.T) {
	p := start(t)
	w := open(t, 100, 40, []string{"TERM=xterm"}, "status", "--watch", p.sock)
	if w == nil {
		return
	}
	w.shows(t, "\x1b[H", 1)
	w.shows(t, "\x1b[J", 1)
	assert.Contains(t, w.stdout.String(), "health: nothing to report\x1b[K")
	w.resize(t, 50, 5)
	w.shows(t, "... more: make the window higher\x1b[K\x1b[J", 1)
	small, _, _ := strings.Cut(w.stdout.String(), "... more")
	assert.Equal(t, 4, strings.Count(small[strings.LastIndex(small, "\x1b[H"):], "\n"), "%q", small)
	_, err := w.master.Write([]byte{3}) // Ctrl-C
	require.NoError(t, err)
	w.lines(t)

	w = open(t, 100, 40, []string{"TERM=dumb"}, "status", "--watch", p.sock)
	w.shows(t, "\nhealth: ", 2)
	assert.NotContains(t, w.stdout.String(), "\x1b")
}
