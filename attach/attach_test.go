// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestDial asks for each transport and sends frames both ways.
func TestDial(t *testing.T) {
	for transport, kind := range map[Transport]int{Datagram: syscall.SOCK_DGRAM, Stream: syscall.SOCK_STREAM} {
		t.Run(string(transport), func(t *testing.T) {
			noLeaks(t)
			ours, theirs := pair(t, kind)
			ended := make(chan struct{})
			socket := serve(t, "attach", func(c *net.UnixConn) {
				defer close(ended)
				m := read(t, c)
				want := `{"version":1,"transport":"` + string(transport) + `","name":"web","mac":"52:54:00:12:34:56",` +
					`"interface_id":"6ba7b810-9dad-41d1-80b4-00c04fd430c8"}` + "\n"
				if m.line != want || len(m.files) != 0 {
					t.Errorf("request %q with %d descriptors, want %q", m.line, len(m.files), want)
				}
				answer(t, c, strings.Replace(goodReply, `"dgram"`, `"`+string(transport)+`"`, 1), theirs)
				untilEOF(c)
			})
			l, err := Dial(t.Context(), socket, WithTransport(transport), WithName("web"),
				WithMAC(net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}),
				WithInterfaceID("6ba7b810-9dad-41d1-80b4-00c04fd430c8"))
			check(t, err)
			if l.Info.Transport != transport || l.Info.MTU != 1500 || l.Info.MAC.String() != "52:54:00:12:34:56" {
				t.Errorf("%+v", l.Info)
			}
			closeOnExec(t, l.File)
			largeBuffers(t, l.File, transport)
			exchange(t, ours, l.File)
			select {
			case <-l.Done():
				t.Fatal("done while the lifeline is open")
			case <-ended:
				t.Fatal("the lifeline is closed")
			default:
			}
			for range 2 {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			within(t, "the daemon sees the end", ended)
			within(t, "Done", l.Done())
			if err := l.Wait(t.Context()); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Wait: %v, want %v", err, net.ErrClosed)
			}
			if _, err := l.File.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
				t.Errorf("File after Close: %v", err)
			}
		})
	}
}

// TestEndedByDaemon loses the lifeline.
func TestEndedByDaemon(t *testing.T) {
	noLeaks(t)
	_, theirs := pair(t, syscall.SOCK_DGRAM)
	end := make(chan struct{})
	socket := serve(t, "attach", func(c *net.UnixConn) {
		read(t, c)
		answer(t, c, goodReply, theirs)
		answer(t, c, "what comes later is ignored\n")
		<-end
	})
	l, err := Dial(t.Context(), socket)
	check(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait: %v while the session lives", err)
	}
	close(end)
	within(t, "Done", l.Done())
	if err := l.Wait(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("Wait: %v, want %v", err, ErrEnded)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestLifeline hands the lifeline to another process: the session lives until both have closed it.
func TestLifeline(t *testing.T) {
	noLeaks(t)
	_, theirs := pair(t, syscall.SOCK_DGRAM)
	more, ended := make(chan struct{}), make(chan struct{})
	socket := serve(t, "attach", func(c *net.UnixConn) {
		read(t, c)
		answer(t, c, goodReply, theirs)
		<-more
		answer(t, c, "so that it reads again\n")
		untilEOF(c)
		close(ended)
	})
	l, err := Dial(t.Context(), socket)
	check(t, err)
	f, err := l.Lifeline()
	check(t, err)
	closeOnExec(t, f)
	// As os/exec does for each of its ExtraFiles, by Fd, and a process that inherits it may. Close must not wait for a read.
	check(t, syscall.SetNonblock(int(f.Fd()), false))
	close(more)
	time.Sleep(20 * time.Millisecond)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
		t.Fatal("the session has ended although the duplicate is open")
	case <-time.After(20 * time.Millisecond):
	}
	f.Close()
	within(t, "the daemon sees the end", ended)
	if _, err := l.Lifeline(); err == nil {
		t.Error("a lifeline after Close")
	}
}

func TestAdopt(t *testing.T) {
	for name, detached := range map[string]bool{"with a lifeline": false, "without a lifeline": true} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			ours, theirs := pair(t, syscall.SOCK_DGRAM)
			check(t, syscall.SetNonblock(int(theirs.Fd()), true))
			want, opts := `{"version":1,"transport":"dgram","wait":true}`+"\n", []Option(nil)
			if detached {
				want, opts = `{"version":1,"transport":"dgram"}`+"\n", []Option{WithoutLifeline()}
			}
			ended := make(chan struct{})
			socket := serve(t, "adopt", func(c *net.UnixConn) {
				defer close(ended)
				m := read(t, c)
				if m.line != want || len(m.files) != 1 {
					t.Errorf("request %q with %d descriptors, want %q", m.line, len(m.files), want)
				}
				for _, f := range m.files {
					if err := f.SetDeadline(time.Time{}); err != nil { // package os has asked for O_NONBLOCK
						t.Errorf("handing it over changed the flags: %v", err)
					}
					exchange(t, ours, f)
					f.Close()
				}
				answer(t, c, goodReply)
				untilEOF(c)
			})
			l, err := Adopt(t.Context(), socket, theirs, opts...)
			check(t, err)
			if l.File != nil || l.Info.MaxFrame != 1514 {
				t.Errorf("%+v", l)
			}
			if detached {
				within(t, "Done", l.Done())
				within(t, "the connection ends", ended)
			} else {
				select {
				case <-l.Done():
					t.Error("done while the lifeline is open")
				default:
				}
			}
			check(t, l.Close())
			within(t, "the connection ends", ended)
		})
	}
}

// TestBadDaemons has answers that are not the protocol's. Nothing that came along may stay open.
func TestBadDaemons(t *testing.T) {
	const request = `{"version":1,"transport":"dgram"}` + "\n"
	send := func(t *testing.T, c *net.UnixConn, f *os.File, err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		answer(t, c, goodReply, f)
	}
	tests := []struct {
		name   string
		answer func(t *testing.T, c *net.UnixConn, f *os.File)
		want   error
		text   string
	}{
		{"closes", func(*testing.T, *net.UnixConn, *os.File) {}, io.ErrUnexpectedEOF, "without an answer"},
		{"is cut", func(t *testing.T, c *net.UnixConn, f *os.File) { answer(t, c, `{"version":1`, f) }, io.ErrUnexpectedEOF, ""},
		{"speaks HTTP", func(t *testing.T, c *net.UnixConn, _ *os.File) { answer(t, c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, errReply, ""},
		{"never ends a line", func(t *testing.T, c *net.UnixConn, f *os.File) {
			answer(t, c, strings.Repeat("x", maxReply), f)
		}, errReply, "a line of more than"},
		{"sends no descriptor", func(t *testing.T, c *net.UnixConn, _ *os.File) { answer(t, c, goodReply) }, nil, "without a descriptor"},
		{"sends a file", func(t *testing.T, c *net.UnixConn, _ *os.File) {
			f, err := os.Open(os.DevNull)
			send(t, c, f, err)
		}, nil, "no dgram socket"},
		{"sends a stream", func(t *testing.T, c *net.UnixConn, _ *os.File) {
			f, err := c.File()
			send(t, c, f, err)
		}, nil, "no dgram socket"},
		{"sends two descriptors", func(t *testing.T, c *net.UnixConn, f *os.File) { answer(t, c, goodReply, f, f) }, nil, "more than one"},
		{"sends twenty descriptors", func(t *testing.T, c *net.UnixConn, f *os.File) {
			answer(t, c, goodReply, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f, f)
		}, nil, "descriptor"},
		{"refuses", func(t *testing.T, c *net.UnixConn, _ *os.File) {
			answer(t, c, `{"version":1,"error":{"code":"full","text":"256 clients"}}`+"\n")
		}, ErrFull, "256 clients"},
		{"refuses and sends a descriptor", func(t *testing.T, c *net.UnixConn, f *os.File) {
			answer(t, c, `{"version":1,"error":{"code":"id-in-use","text":"x"}}`+"\n", f)
		}, ErrIDInUse, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			_, theirs := pair(t, syscall.SOCK_DGRAM)
			socket := serve(t, "attach", func(c *net.UnixConn) {
				if m := read(t, c); m.line != request {
					t.Errorf("request %q", m.line)
				}
				tt.answer(t, c, theirs)
			})
			l, err := Dial(t.Context(), socket)
			if err == nil {
				l.Close()
				t.Fatal("no error")
			}
			if tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.want, tt.text)
			}
			if !strings.Contains(err.Error(), socket) && tt.want != nil {
				t.Errorf("error %v does not tell the path", err)
			}
		})
	}
}

// TestSlowAnswer has a reply that comes in single bytes, with the descriptor on the first, and a context of the request that ends
// after it. The directory is named in place of the socket.
func TestSlowAnswer(t *testing.T) {
	noLeaks(t)
	ours, theirs := pair(t, syscall.SOCK_DGRAM)
	socket := serve(t, "attach", func(c *net.UnixConn) {
		read(t, c)
		answer(t, c, goodReply[:1], theirs)
		for i := 1; i < len(goodReply); i++ {
			answer(t, c, goodReply[i:i+1])
		}
		untilEOF(c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Dial(ctx, socket+".d")
	cancel()
	check(t, err)
	defer l.Close()
	exchange(t, ours, l.File)
	if string(l.Info.JSON)+"\n" != goodReply {
		t.Errorf("JSON %q", l.Info.JSON)
	}
	select {
	case <-l.Done():
		t.Error("done with the context of the request")
	case <-time.After(20 * time.Millisecond):
	}
}

// TestRefusedUnread has a daemon that answers and closes without having read: the answer counts, not the failed write.
func TestRefusedUnread(t *testing.T) {
	noLeaks(t)
	socket := serve(t, "adopt", func(c *net.UnixConn) {
		answer(t, c, `{"version":1,"error":{"code":"full","text":"x"}}`+"\n")
		_ = c.CloseRead()
	})
	_, theirs := pair(t, syscall.SOCK_DGRAM)
	for range 20 {
		if _, err := Adopt(t.Context(), socket, theirs); !errors.Is(err, ErrFull) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("error %v, want %v", err, ErrFull)
		}
	}
}

// TestStopping: a daemon that becomes another version of itself is asked again, until the context ends.
func TestStopping(t *testing.T) {
	noLeaks(t)
	var asked atomic.Int32
	socket := serve(t, "attach", func(c *net.UnixConn) {
		code := "stopping"
		if asked.Add(1) == 3 {
			code = "full"
		}
		answer(t, c, `{"version":1,"error":{"code":"`+code+`","text":"x"}}`+"\n")
	})
	if _, err := Dial(t.Context(), socket); !errors.Is(err, ErrFull) || asked.Load() != 3 {
		t.Fatalf("error %v after %d requests, want %v after 3", err, asked.Load(), ErrFull)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, socket); err == nil || asked.Load() < 4 {
		t.Fatalf("error %v", err)
	}
}

func TestContext(t *testing.T) {
	noLeaks(t)
	began := make(chan struct{}, 1)
	socket := serve(t, "attach", func(c *net.UnixConn) {
		read(t, c)
		began <- struct{}{}
		untilEOF(c)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if _, err := Dial(ctx, socket); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 2 { // it ends, and has ended before
		if _, err := Dial(ctx, socket); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
	}
}

func TestBadArguments(t *testing.T) {
	noLeaks(t)
	_, theirs := pair(t, syscall.SOCK_DGRAM)
	_, closed := pair(t, syscall.SOCK_DGRAM)
	closed.Close()
	socket := serve(t, "adopt", untilEOF)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for name, try := range map[string]func() (*Link, error){
		"transport":          func() (*Link, error) { return Dial(ctx, "/x", WithTransport("seqpacket")) },
		"short address":      func() (*Link, error) { return Dial(ctx, "/x", WithMAC(make(net.HardwareAddr, 5))) },
		"lifeline":           func() (*Link, error) { return Dial(ctx, "/x", WithoutLifeline()) },
		"adopt, address":     func() (*Link, error) { return Adopt(ctx, "/x", theirs, WithMAC(nil)) },
		"adopt, no file":     func() (*Link, error) { return Adopt(ctx, "/x", nil) },
		"adopt, closed file": func() (*Link, error) { return Adopt(ctx, socket, closed) },
	} {
		if l, err := try(); err == nil {
			l.Close()
			t.Errorf("%s: no error", name)
		} else if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: it waits", name)
		}
	}
}

// exchange sends a message each way.
func exchange(t *testing.T, a, b *os.File) {
	t.Helper()
	for _, way := range [][2]*os.File{{a, b}, {b, a}} {
		if _, err := way[0].Write([]byte("frame")); err != nil {
			t.Error(err)
			continue
		}
		buf := make([]byte, 16)
		if n, err := readSoon(way[1], buf); err != nil || string(buf[:n]) != "frame" {
			t.Errorf("%q, error %v", buf[:n], err)
		}
	}
}

// readSoon reads what is there already, from a descriptor of whichever flags.
func readSoon(f *os.File, buf []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { n, _, failed = syscall.Recvfrom(int(fd), buf, syscall.MSG_DONTWAIT) })
	if err == nil {
		err = failed
	}
	return max(n, 0), err
}

// closeOnExec checks that no child would have it.
func closeOnExec(t *testing.T, f *os.File) {
	t.Helper()
	raw, err := f.SyscallConn()
	check(t, err)
	check(t, raw.Control(func(fd uintptr) {
		child := exec.CommandContext(t.Context(), "test", "!", "-e", fmt.Sprintf("/dev/fd/%d", fd))
		if err := child.Run(); err != nil {
			t.Errorf("a child has it: %v", err)
		}
	}))
}

// largeBuffers checks that the buffers are as large as the system allows, of what is asked for.
func largeBuffers(t *testing.T, f *os.File, transport Transport) {
	t.Helper()
	sizes := func(f *os.File) (n [2]int) {
		raw, err := f.SyscallConn()
		check(t, err)
		check(t, raw.Control(func(fd uintptr) {
			for i, option := range []int{syscall.SO_SNDBUF, syscall.SO_RCVBUF} {
				n[i], _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, option)
			}
		}))
		return n
	}
	fresh, _ := pair(t, map[Transport]int{Datagram: syscall.SOCK_DGRAM, Stream: syscall.SOCK_STREAM}[transport])
	small := sizes(fresh)
	enlarge(fresh, transport)
	if got, want := sizes(f), sizes(fresh); got != want || got == small && small[1] < streamBuffer {
		t.Errorf("buffers of %d bytes, %d before, want %d", got, small, want)
	}
}

// within waits for a channel's end.
func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// listenAt binds a stream socket at a path of the test's.
func listenAt(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o700))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}
