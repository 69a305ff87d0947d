// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network"
)

// logged is what f prints.
func logged(level slog.Level, f func(*slog.Logger)) string {
	var b bytes.Buffer
	f(NewLogger(&b, level))
	return b.String()
}

// TestLegacyLines are socket_vmnet's own lines, byte for byte.
func TestLegacyLines(t *testing.T) {
	terminated, interrupt := "Terminated", "Interrupt"
	if runtime.GOOS == "darwin" {
		terminated, interrupt = "Terminated: 15", "Interrupt: 2"
	}
	for _, c := range []struct {
		want string
		log  func(*slog.Logger)
	}{
		{"INFO | Accepted a connection (fd 7)", func(l *slog.Logger) { l.Info("accepted a connection", "fd", 7) }},
		{"INFO | Connection closed by peer (fd 7)", func(l *slog.Logger) { l.Info("connection closed by peer", "fd", 7) }},
		{"INFO | Closing a connection (fd 7)", func(l *slog.Logger) { l.Info("closing a connection", "fd", 7) }},
		{`INFO | Created pidfile "/var/run/x y.pid" for process 42`, func(l *slog.Logger) { l.Info("created pidfile", "path", "/var/run/x y.pid", "pid", 42) }},
		{`INFO | Removed pidfile "/p" for process 42`, func(l *slog.Logger) { l.Info("removed pidfile", "path", "/p", "pid", 42) }},
		{"INFO | Received signal " + terminated, func(l *slog.Logger) { l.Info("received signal", "signal", syscall.SIGTERM) }},
		{"INFO | Received signal " + interrupt, func(l *slog.Logger) { l.Info("received signal", "signal", SignalText(os.Interrupt)) }},
		{"INFO | Initializing vmnet.framework (mode 1000)", func(l *slog.Logger) { l.Info("initializing network", "mode", network.ModeHost) }},
		{`INFO | Using network interface "en0"`, func(l *slog.Logger) { l.Info("using network interface", "name", "en0") }},
		{"INFO | * vmnet_mtu: 1500", func(l *slog.Logger) { l.Info("interface parameter", "key", "vmnet_mtu", "value", uint64(1500)) }},
		{`DEBUG| Opening socket "/s" (for UNIX group "staff")`, func(l *slog.Logger) { l.Debug("opening socket", "path", "/s", "group", "staff") }},
		{"DEBUG| shutting down with rc=1", func(l *slog.Logger) { l.Debug("shutting down", "rc", 1) }},
		// Whatever else an event tells is left out.
		{"INFO | Accepted a connection (fd 7)", func(l *slog.Logger) {
			l.With("session", 3).Info("accepted a connection", "peer_uid", 501, "fd", 7)
		}},
		// A sub-logger's value gives way to the record's.
		{"INFO | Accepted a connection (fd 8)", func(l *slog.Logger) { l.With("fd", 7).Info("accepted a connection", "fd", 8) }},
		{"INFO | Closing a connection (fd 7)", func(l *slog.Logger) { l.With("fd", 7).Info("closing a connection") }},
		// What the text needs is missing.
		{"INFO | accepted a connection port=7", func(l *slog.Logger) { l.Info("accepted a connection", "port", 7) }},
	} {
		t.Run(c.want, func(t *testing.T) { assert.Equal(t, c.want+"\n", logged(slog.LevelDebug, c.log)) })
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		want string
		log  func(*slog.Logger)
	}{
		{`INFO | x a="" b="two words" c="say \"x\"" d="k=v" e=a\b`, func(l *slog.Logger) {
			l.Info("x", "a", "", "b", "two words", "c", `say "x"`, "d", "k=v", "e", `a\b`)
		}},
		{"INFO | x d=1.5s t=true n=-1 f=0.5 nil=<nil>", func(l *slog.Logger) {
			l.Info("x", "d", 1500*time.Millisecond, "t", true, "n", -1, "f", 0.5, "nil", nil)
		}},
		// A guest chose its host name.
		{`INFO | dhcp host="a\nERROR| fake\x1b[31m\xff"`, func(l *slog.Logger) { l.Info("dhcp", "host", "a\nERROR| fake\x1b[31m\xff") }},
		{`INFO | a\nb\u2028c ü`, func(l *slog.Logger) { l.Info("a\nb\u2028c ü") }},
		{`INFO | Using network interface "a\nb"`, func(l *slog.Logger) { l.Info("using network interface", "name", "a\nb") }},
		{"INFO | x session=3 client.port=4 client.drops.storm=5", func(l *slog.Logger) {
			l.With("session", 3).WithGroup("client").With("port", 4).Info("x", slog.Group("drops", "storm", 5))
		}},
		{"INFO | x", func(l *slog.Logger) { l.WithGroup("").With().Info("x", slog.Group("empty")) }},
		{"INFO | x", func(l *slog.Logger) { l.LogAttrs(t.Context(), slog.LevelInfo, "x", make([]slog.Attr, 1)...) }},
	} {
		t.Run(c.want, func(t *testing.T) { assert.Equal(t, c.want+"\n", logged(slog.LevelDebug, c.log)) })
	}
}

func TestLogError(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"text", newTextError("bind", syscall.EADDRINUSE), "ERROR| bind: Address already in use\n"},
		{"wrapped text", fmt.Errorf("start: %w", newTextError("bind", syscall.EACCES)), "ERROR| bind: Permission denied\n"},
		{"two lines", bindError("chmod", syscall.EPERM), "ERROR| chmod: Operation not permitted\n"},
		{"advice", bindError("chmod", syscall.EPERM).advise("use sudo"), "ERROR| chmod: Operation not permitted: use sudo\n"},
		{"no advice", bindError("chmod", syscall.EPERM).advise(""), "ERROR| chmod: Operation not permitted\n"},
		{"other text", &textError{Lines: []string{"a"}, Text: "d"}, "ERROR| d\n"},
		{"other error", &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, "ERROR| open /x: No such file or directory\n"},
		{"no errno", errors.New("bridged mode needs macOS"), "ERROR| bridged mode needs macOS\n"},
		{"control characters", errors.New("a\nb"), "ERROR| a\\nb\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, logged(slog.LevelInfo, func(l *slog.Logger) { LogError(l, c.err) }))
		})
	}
	assert.Equal(t, "ERROR| a\nERROR| b\nERROR| c\n", logged(slog.LevelInfo, func(l *slog.Logger) {
		Old.LogError(l, (&textError{Lines: []string{"a", "b"}, Text: "d"}).advise("c"))
	}), "socket_vmnet's own lines, and what to do below them")
	require.ErrorIs(t, newTextError("bind", syscall.EADDRINUSE), syscall.EADDRINUSE)
}

func TestStrerror(t *testing.T) {
	for _, c := range []struct {
		err       error
		text, all string
	}{
		{syscall.EADDRINUSE, "Address already in use", "Address already in use"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, "Permission denied", "open /x: Permission denied"},
		{fmt.Errorf("lock: %w", syscall.EWOULDBLOCK), "Resource temporarily unavailable", "lock: Resource temporarily unavailable"},
		{fmt.Errorf("%w (try root)", syscall.EACCES), "Permission denied", "permission denied (try root)"},
		{errors.New("bad flag"), "bad flag", "bad flag"},
	} {
		assert.Equal(t, c.text, Strerror(c.err))
		assert.Equal(t, c.all, message(c.err))
	}
}

func TestPrivilegeWarnings(t *testing.T) {
	const (
		root   = "Running without root. This is very unlikely to work: See README.md"
		setuid = "Seems running with SETUID. This is insecure and highly discouraged: See README.md"
	)
	for _, c := range []struct {
		name      string
		goos      string
		release   string
		backend   Backend
		euid, uid int
		want      []string
	}{
		{"root on macOS", "darwin", "24.6.0", backendAuto, 0, 0, nil},
		{"user on macOS", "darwin", "24.6.0", backendAuto, 501, 501, []string{root}},
		{"user on macOS without vmnet", "darwin", "24.6.0", backendUsernet, 501, 501, nil},
		{"user on macOS 26", "darwin", "25.1.0", backendAuto, 501, 501, nil},
		{"user on a macOS that does not tell", "darwin", "", BackendVmnet, 501, 501, []string{root}},
		{"setuid user on macOS", "darwin", "24.6.0", backendAuto, 502, 501, []string{root, setuid}},
		{"user on Linux", "linux", "6.12.0-9-cloud-amd64", backendAuto, 1000, 1000, nil},
		{"setuid root on Linux", "linux", "6.12.0-9-cloud-amd64", backendAuto, 0, 1000, []string{setuid}},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, privilegeWarnings(c.goos, c.release, c.backend, c.euid, c.uid))
		})
	}
	assert.Equal(t, BackendVmnet, backendAuto.Resolve("darwin"))
	assert.Equal(t, backendUsernet, backendAuto.Resolve("linux"))
	assert.Equal(t, BackendVmnet, BackendVmnet.Resolve("linux"))
}
