// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseValues(t *testing.T) {
	tests := []struct {
		name, text string
		want       map[string]string
	}{
		{"nothing", "", map[string]string{}},
		{"other lines", "a=b\nxE2E a=b\n", map[string]string{}},
		{"one line", "E2E a=1 b=two\r\n", map[string]string{"a": "1", "b": "two"}},
		{"word without key", "E2E ready mac=m\n", map[string]string{"mac": "m"}},
		{"empty value", "E2E a= b=1\n", map[string]string{"a": "", "b": "1"}},
		{"list", "E2E dns=192.0.2.1 192.0.2.2 lease=3600\n", map[string]string{"dns": "192.0.2.1 192.0.2.2", "lease": "3600"}},
		{"value with equals sign", "E2E a=b=c\n", map[string]string{"a": "b=c"}},
		{"last one wins", "E2E a=1\nx\nE2E a=2\n", map[string]string{"a": "2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { assert.Equal(t, tt.want, ParseValues(tt.text)) })
	}
}

func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutput()
		go func() {
			for _, s := range []string{"one\r\ntw", "o wanted", " three\r\n"} {
				time.Sleep(time.Second)
				fmt.Fprint(o, s)
			}
			time.Sleep(time.Second)
			o.end()
		}()
		start := time.Now()
		line, err := o.WaitFor(t.Context(), "wanted")
		require.NoError(t, err)
		assert.Equal(t, "two wanted three", line)
		assert.Equal(t, 3*time.Second, time.Since(start), "not before the line is whole")
		assert.Equal(t, "two wanted three", o.Tail(1))

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = o.WaitFor(ctx, "else")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = o.WaitFor(t.Context(), "else")
		require.ErrorIs(t, err, ErrEnded)
	})
}

// guestShell answers on the other end of a shell's connection as a guest does.
func guestShell(c net.Conn, answers ...string) {
	r := bufio.NewReader(c)
	for _, a := range answers {
		if _, err := r.ReadString('\n'); err != nil {
			return
		}
		fmt.Fprint(c, a)
	}
}

func TestShell(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	s := newShell(host)
	defer s.close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		guestShell(guest, "a\r\nE2E x=1\r\n\x1e1 0\r\n", "no end of line\x1e2 7\r\n", "half")
		cancel() // a write to the pipe ends when it has been read
	}()

	r, err := s.run(t.Context(), "first")
	require.NoError(t, err)
	assert.Equal(t, Result{Output: "a\nE2E x=1\n"}, r)
	assert.Equal(t, map[string]string{"x": "1"}, r.Values())

	r, err = s.run(t.Context(), "second")
	require.NoError(t, err)
	assert.Equal(t, Result{Output: "no end of line", Code: 7}, r)

	_, err = s.run(ctx, "third")
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, `"half"`)
	_, err = s.run(t.Context(), "fourth")
	assert.ErrorContains(t, err, "stuck since", "late output must not be taken for this command's")
}

func TestQMP(t *testing.T) {
	host, qemu := net.Pipe()
	go func() {
		defer qemu.Close()
		r := bufio.NewReader(qemu)
		fmt.Fprint(qemu, `{"QMP": {"version": {}}}`+"\r\n")
		for _, answer := range []string{
			`{"return": {}}`,
			`{"timestamp": {"seconds": 10, "microseconds": 5}, "event": "NETDEV_STREAM_DISCONNECTED", "data": {}}` + `{"return": {"running": true}}`,
			`{"error": {"class": "CommandNotFound", "desc": "no such command"}}`,
		} {
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
			fmt.Fprintln(qemu, answer)
		}
	}()
	q, err := newQMP(host)
	require.NoError(t, err)
	defer q.Close()
	got, err := q.Execute("query-status")
	require.NoError(t, err)
	assert.JSONEq(t, `{"running": true}`, string(got))

	e, err := q.WaitEvent(t.Context(), EventStreamDisconnected, time.Unix(10, 0))
	require.NoError(t, err)
	assert.Equal(t, time.Unix(10, 5000), e.Time)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = q.WaitEvent(ctx, EventStreamDisconnected, time.Unix(10, 6000))
	require.Error(t, err, "an event before the time given")

	_, err = q.Execute("nonsense")
	assert.ErrorContains(t, err, "no such command")
	_, err = q.Execute("anything")
	require.Error(t, err, "after QEMU has gone")
}

func TestFindQEMU(t *testing.T) {
	dir := t.TempDir()
	fake := func(name, version string) string {
		path := filepath.Join(dir, name)
		script := fmt.Sprintf("#!/bin/sh\necho 'QEMU emulator version %s (Debian x)'\n", version)
		require.NoError(t, os.WriteFile(path, []byte(script), 0o700))
		return path
	}
	older, newer := fake("older", "7.2.22"), fake("qemu-system-x86_64", "10.0.13")
	t.Setenv("PATH", dir)
	tests := []struct {
		name, named, own string
		least            version
		want             string
	}{
		{"in PATH", "", "", version{9, 2}, newer},
		{"own first", "", older, version{7, 2}, older},
		{"own too old", "", older, version{9, 2}, newer},
		{"named", older, newer, version{7, 2}, older},
		{"named is too old", older, newer, version{9, 2}, ""},
		{"none is new enough", "", older, version{11, 0}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findQEMU(tt.named, tt.own, tt.least)
			if tt.want == "" {
				require.ErrorIs(t, err, ErrMissing)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestClose: a lab leaves no process and no file.
func TestClose(t *testing.T) {
	l := emptyLab(t)
	p, err := l.Start("sleeper", "sh", "-c", "trap '' TERM; sleep 100 & echo up; wait; sleep 100")
	require.NoError(t, err)
	_, err = p.Output().WaitFor(t.Context(), "up")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	assert.Equal(t, -1, p.ExitCode(), "ended by a signal")
	_, err = os.Stat(l.Dir)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// TestStartDaemonFails: what a daemon says when it does not start is in the error.
func TestStartDaemonFails(t *testing.T) {
	l := emptyLab(t)
	program := l.Path("daemon")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho 'ERROR| no luck'; exit 3\n"), 0o700))
	_, err := l.StartDaemon(t.Context(), program, []string{l.Path("s")})
	require.ErrorContains(t, err, "code 3")
	assert.ErrorContains(t, err, "no luck")
}

// emptyLab is a Lab whose guest image has nothing but the scripts.
func emptyLab(t *testing.T) *Lab {
	t.Helper()
	busybox := filepath.Join(t.TempDir(), "busybox")
	require.NoError(t, os.WriteFile(busybox, []byte("x"), 0o700))
	l, err := New(t.Context(), Options{Tools: Tools{Busybox: busybox, Helper: busybox, Modules: t.TempDir()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	image, err := os.ReadFile(l.image)
	require.NoError(t, err)
	for _, f := range []string{"init", "lab/dhcp", "lab/lease", "bin/busybox"} {
		assert.Contains(t, string(image), f+"\x00", "names in the image")
	}
	return l
}
