// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNotThere has each reason for which there is no socket. The texts tell what to do.
func TestNotThere(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, socket string) (ask string)
		want error
		text []string
	}{
		{
			"no daemon", func(_ *testing.T, socket string) string { return socket },
			fs.ErrNotExist,
			[]string{"no daemon listens on SOCKET", "start socket_vmnet2"},
		},
		{"another daemon", func(t *testing.T, socket string) string {
			listenAt(t, socket)
			return socket
		}, fs.ErrNotExist, []string{"SOCKET.d", "--runtime-dir=none", "not older"}},
		{"a directory without", func(t *testing.T, socket string) string {
			check(t, os.Mkdir(socket, 0o700))
			return socket
		}, fs.ErrNotExist, []string{"this directory is none of socket_vmnet2's"}},
		{"a stale socket", func(t *testing.T, socket string) string {
			l := listenAt(t, filepath.Join(socket+".d", "attach"))
			l.SetUnlinkOnClose(false)
			l.Close()
			return socket
		}, syscall.ECONNREFUSED, []string{"no daemon listens there any more"}},
		{
			"a long path", func(_ *testing.T, socket string) string { return socket + strings.Repeat("x", 200) },
			syscall.ENAMETOOLONG,
			[]string{"bytes"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			socket := filepath.Join(shortDir(t), "sock")
			_, err := Dial(t.Context(), tt.make(t, socket))
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			for _, text := range tt.text {
				if text = strings.ReplaceAll(text, "SOCKET", socket); !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not tell %q", err, text)
				}
			}
			if strings.Count(err.Error(), "connect to") > 1 || strings.Contains(err.Error(), "dial unix") {
				t.Errorf("%q says it twice", err)
			}
		})
	}
}

// TestPermission tells where to look for the group that one must be in.
func TestPermission(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	err := explain(t.Context(), refused, "/s", "/s.d", "/s.d/attach")
	if !errors.Is(err, fs.ErrPermission) || !strings.HasPrefix(err.Error(), "attach: connect to /s.d/attach: connect: permission denied; ") ||
		!strings.Contains(err.Error(), "members of the group that ls -ld /s.d tells") {
		t.Errorf("%v", err)
	}
}

// TestBusy has more connections than the daemon's socket lets wait: the client comes when it can, or when its time is over.
func TestBusy(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // elsewhere connect waits by itself
	}
	noLeaks(t)
	dir := shortDir(t)
	path := filepath.Join(dir, "attach")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(fd)
	check(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)))
	waiting, err := net.Dial("unix", path)
	check(t, err)
	defer waiting.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}

	done := make(chan error, 1)
	go func() {
		_, err := Dial(t.Context(), dir)
		done <- err
	}()
	for i := range 2 { // the one that waits, then the client, which is not answered
		c, _, err := syscall.Accept(fd)
		if err != nil {
			t.Fatal(i, err)
		}
		syscall.Close(c)
	}
	if err := <-done; !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

// TestRefusedForAMoment: on macOS a full backlog refuses, as a socket does that has no listener yet.
func TestRefusedForAMoment(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(fd)
	check(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	if _, err := dial(t.Context(), path, time.Millisecond); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("no listener: %v", err)
	}
	within := time.Hour
	if runtime.GOOS != "linux" {
		within = refusedTime // what Attach takes, where a full backlog is refused as well
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = syscall.Listen(fd, 1) })
	c, err := dial(t.Context(), path, within)
	check(t, err)
	c.Close()
}

// TestNoChildBetweenReceiveAndCloseOnExec: while a child is being started, nothing is received.
func TestNoChildBetweenReceiveAndCloseOnExec(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	check(t, syscall.Sendmsg(pair[0], []byte("x"), syscall.UnixRights(pair[0]), nil, 0))
	got := make(chan int)
	syscall.ForkLock.Lock()
	go func() {
		_, _, _, fds, err := recvRights(pair[1], make([]byte, 1), make([]byte, 64))
		if err != nil {
			t.Error(err)
		}
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		got <- len(fds)
	}()
	select {
	case <-got:
		syscall.ForkLock.Unlock()
		t.Fatal("a descriptor came that the child inherits")
	case <-time.After(50 * time.Millisecond): // as long as a child takes
		syscall.ForkLock.Unlock()
	}
	if n := <-got; n != 1 {
		t.Fatalf("%d descriptors came", n)
	}
}
