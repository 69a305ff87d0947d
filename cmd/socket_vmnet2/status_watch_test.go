// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
	"github.com/socket-vmnet2/socket_vmnet2/internal/testing/vnettest"
)

// shows waits until its output has text n times.
func (p *process) shows(t *testing.T, text string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Count(p.stdout.String(), text) >= n }, patience, 5*time.Millisecond,
		"%q is not %d times in\n%s\n%s", text, n, p.stdout, p.stderr)
}

// TestWatch: a daemon is shown again and again, over its end, its start and an upgrade; an interruption ends it in order.
func TestWatch(t *testing.T) {
	p := start(t)
	w := runDaemon(t, exec.Command(filepath.Join(binaries, "socket_vmnet2"), "status", "--watch", p.sock), p.sock)
	w.shows(t, "\nhealth: ", 3)
	assert.Contains(t, w.stdout.String(), "\n\nsocket_vmnet2 ", "an empty line is between two looks")
	assert.Contains(t, w.stdout.String(), "NET/S")
	assert.NotContains(t, w.stdout.String(), "\x1b")
	p.stop(t)
	w.shows(t, p.sock+": gone; waiting for it to come back: ", 1)
	again := launch(t, "socket_vmnet2", p.sock)
	w.shows(t, p.sock+": back\n", 1)
	before := strings.Count(w.stdout.String(), "\nhealth: ")
	w.shows(t, "\nhealth: ", before+2)
	assert.Equal(t, 1, strings.Count(w.stdout.String(), ": gone; "), "a pipe is told once")
	assert.Equal(t, 1, strings.Count(w.stdout.String(), ": back\n"))
	_, stderr, err := again.upgrade(t)
	require.NoError(t, err, stderr)
	w.shows(t, "upgraded in place once", 2)
	w.interrupt(t)
	assert.Empty(t, w.stderr.String())
}

// closedPipe is standard output whose reader has gone.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestClosedPipe: a reader that has seen enough, as head, is no error.
func TestClosedPipe(t *testing.T) {
	p := start(t)
	for _, args := range []string{"status", "status --json", "status --hosts", "status --sockets", "status --watch", "clients", "clients --names"} {
		var errs strings.Builder
		words := append(strings.Fields(args), p.sock)
		code := runCommand(words[0], words[1:], compat.IO{Stdout: closedPipe{}, Stderr: &errs, LookupEnv: os.LookupEnv})
		assert.Zero(t, code, "%s", args)
		assert.Empty(t, errs.String(), args)
	}
}

// TestASCII: without UTF-8 nothing but ASCII is shown.
func TestASCII(t *testing.T) {
	assert.Equal(t, "a>?\n", strings.Map(toASCII, "a…é\n"))
	for set, want := range map[string]bool{
		"": false, "LANG=C": false, "LANG=de_DE.UTF-8": true, "LANG=en_US.utf8": true, "LC_ALL=C LANG=C.UTF-8": false,
		"LC_CTYPE=UTF-8 LANG=C": true, "LC_ALL= LANG=C.UTF-8": true,
	} {
		got := isUTF8(func(name string) (string, bool) {
			for word := range strings.FieldsSeq(set) {
				if value, ok := strings.CutPrefix(word, name+"="); ok {
					return value, true
				}
			}
			return "", false
		})
		assert.Equal(t, want, got, set)
	}
}

// TestWatched is what is said of a daemon as looks follow each other.
func TestWatched(t *testing.T) {
	pid := func(n int) *status.Status { return &status.Status{Daemon: status.Daemon{PID: n}} }
	d := find.Daemon{Socket: "/s"}
	w := &glance{daemon: d, status: pid(1)}
	first := w.status
	w.next(glance{daemon: d, status: pid(1)})
	assert.Same(t, first, w.before)
	assert.Empty(t, w.notice)
	w.next(glance{daemon: d, status: pid(2)})
	assert.Nil(t, w.before, "another process has no rates yet")
	assert.Equal(t, "/s: started again", w.notice)
	for range 3 {
		w.next(glance{daemon: d, err: errors.New("no")})
		assert.Equal(t, "/s: gone; waiting for it to come back: no", w.notice)
	}
	w.next(glance{daemon: d, status: pid(2)})
	assert.Equal(t, "/s: back", w.notice)
	assert.Nil(t, w.before)

	var out, errs strings.Builder
	v := &viewer{env: compat.IO{Stdout: &out, Stderr: &errs}, json: true}
	w.answer = []byte(`{ "a": 1 }`)
	require.NoError(t, v.show([]glance{*w}))
	assert.Equal(t, `{"a":1}`+"\n", out.String(), "a program has only documents there")
	assert.Equal(t, "/s: back\n", errs.String())
}

func TestProgress(t *testing.T) {
	var said vnettest.Log
	done := progressOn(&said, time.Millisecond, time.Millisecond, "looking")
	require.Eventually(t, func() bool { return strings.Count(said.String(), "\n") >= 2 }, patience, time.Millisecond)
	done()
	assert.Regexp(t, `^\.\.\. looking, \d+ s so far\n\.\.\. looking, `, said.String())

	f, err := os.Create(t.TempDir() + "/stderr")
	require.NoError(t, err)
	defer f.Close()
	progress(compat.IO{Stderr: f}, "looking")() // no terminal
	assert.Empty(t, readFile(t, f.Name()))
}
