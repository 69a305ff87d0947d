// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An adopter is a daemon that takes descriptors and answers with a line.
type adopter struct {
	stop  func()
	taken chan *os.File // what was handed over
	end   chan struct{} // closing it ends the session
}

func adopts(t *testing.T, socket, line string) *adopter {
	t.Helper()
	a := &adopter{taken: make(chan *os.File, 1), end: make(chan struct{})}
	a.stop = serveAt(t, socket, "adopt", func(c *net.UnixConn) {
		m := read(t, c)
		if len(m.files) != 1 || !strings.Contains(m.line, `"wait":true`) {
			t.Errorf("request %q with %d descriptors", m.line, len(m.files))
			return
		}
		answer(t, c, line)
		a.taken <- m.files[0]
		t.Cleanup(func() { m.files[0].Close() })
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			untilEOF(c)
		}()
		select {
		case <-a.end:
			_ = c.CloseRead()
		case <-gone:
		}
		<-gone
	})
	return a
}

// newSocket returns a SOCKET whose directory is there.
func newSocket(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(shortDir(t), "sock")
	check(t, os.Mkdir(socket+".d", 0o700))
	return socket
}

// TestKeep has a device go on with the next daemon, and learn of the link's end.
func TestKeep(t *testing.T) {
	noLeaks(t)
	socket := newSocket(t)
	device, file := pair(t, syscall.SOCK_DGRAM)
	first := adopts(t, socket, goodReply)
	events := make(chan error, 100)
	l, err := Keep(t.Context(), socket, file, WithName("web"), WithNotify(func(err error) { events <- err }))
	file.Close()
	check(t, err)
	if l.Info.MTU != 1500 || l.File != nil {
		t.Errorf("%+v", l)
	}
	if _, err := l.Lifeline(); err == nil {
		t.Error("a lifeline for a child, which cannot come back")
	}
	theirs := <-first.taken
	exchange(t, device, theirs)
	theirs.Close()
	check(t, os.Rename(socket+".d/adopt", socket+".d/old")) // hidden before its clients go, as the daemon does it
	close(first.end)
	first.stop()
	if err := <-events; !errors.Is(err, ErrEnded) || errors.Is(err, ErrKicked) {
		t.Errorf("event %v, want %v", err, ErrEnded)
	}
	if err := <-events; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("event %v, want that there is no daemon", err)
	}
	second := adopts(t, socket, goodReply)
	theirs = <-second.taken
	exchange(t, device, theirs)
	theirs.Close()
	for err := range events {
		if err == nil {
			break
		}
	}
	check(t, l.Close())
	check(t, l.Close())
	if err := l.Wait(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait: %v after Close", err)
	}
	if _, err := device.Write([]byte("frame")); err == nil {
		t.Error("the device does not learn that the link has ended")
	}
}

// TestKeepEnds has all that a kept link does not come back from.
func TestKeepEnds(t *testing.T) {
	for name, c := range map[string]struct {
		uptime string // of a daemon that runs on
		cancel bool
		next   string // the next daemon's answer
		want   error
	}{
		"kicked": {uptime: "1e6", want: ErrKicked},
		"the next daemon refuses": {
			uptime: "0", next: `{"version":1,"error":{"code":"denied","text":"not you"}}` + "\n", want: ErrDenied,
		},
		"the context ends": {cancel: true, want: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			socket := newSocket(t)
			_, file := pair(t, syscall.SOCK_DGRAM)
			d := adopts(t, socket, goodReply)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l, err := Keep(ctx, socket, file)
			check(t, err)
			theirs := <-d.taken
			theirs.Close()
			if c.uptime != "" {
				controls(t, socket, "control", 200, `{"version":"v1","uptime_s":`+c.uptime+"}")
			}
			if c.cancel {
				cancel()
			}
			if c.next != "" { // it is there before the first one has gone
				check(t, os.Rename(socket+".d/adopt", socket+".d/old"))
				adopts(t, socket, c.next)
			}
			if !c.cancel {
				close(d.end)
			}
			within(t, "Done", l.Done())
			if err := l.Wait(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("Wait: %v, want %v", err, c.want)
			}
			check(t, l.Close())
		})
	}
}

func TestKeepRefusals(t *testing.T) {
	_, file := pair(t, syscall.SOCK_DGRAM)
	for name, c := range map[string]struct {
		file *os.File
		opts []Option
		want string
	}{
		"no file":            {want: "invalid argument"},
		"a stream":           {file: file, opts: []Option{WithTransport(Stream)}, want: "for datagrams"},
		"without a lifeline": {file: file, opts: []Option{WithoutLifeline()}, want: "WithoutLifeline"},
		"an option":          {file: file, opts: []Option{WithMAC(nil)}, want: "hardware address"},
		"no daemon":          {file: file, want: "no daemon listens"},
	} {
		noLeaks(t)
		_, err := Keep(t.Context(), "/nonexistent/sock", c.file, c.opts...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// TestKicked tells the end of a session by the daemon from the daemon's own.
func TestKicked(t *testing.T) {
	for name, c := range map[string]struct {
		uptime string
		kicked bool
	}{"it runs on": {"1e6", true}, "another one answers": {"0", false}, "none answers": {"", false}} {
		noLeaks(t)
		_, theirs := pair(t, syscall.SOCK_DGRAM)
		end := make(chan struct{})
		socket := serve(t, "attach", func(conn *net.UnixConn) {
			read(t, conn)
			answer(t, conn, goodReply, theirs)
			<-end
		})
		if c.uptime != "" {
			controls(t, socket, "control", 200, `{"uptime_s":`+c.uptime+"}")
		}
		l, err := Dial(t.Context(), socket)
		check(t, err)
		close(end)
		if err := l.Wait(t.Context()); errors.Is(err, ErrKicked) != c.kicked || !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
		l.Close()
	}
}
