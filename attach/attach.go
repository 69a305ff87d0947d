// SPDX-License-Identifier: Apache-2.0

// Package attach connects a virtual machine to a network of socket_vmnet2: it asks the daemon for a connected descriptor
// (Dial), or hands over one end of a pair that the caller made (Adopt).
//
// A VMM gives the descriptor to its virtual network device: to vz.NewFileHandleNetworkDeviceAttachment, as a descriptor
// number to vfkit, krunkit or QEMU, or to an [os/exec.Cmd] as one of its ExtraFiles. From then on frames go between the
// device and the daemon; this package is not in their way.
//
// # Who keeps what open
//
//   - [Link.File] is the caller's end of the link. Keep it open as long as the virtual machine uses its number in this
//     process; close it once a child has inherited it. Never read from it or write to it beside the device.
//   - The Link itself is the lifeline: the session lives until [Link.Close], until this process ends, or until the daemon
//     ends it. Without it neither side would learn of the other's end, since a pair of datagram sockets reports none on Linux.
//   - A child that outlives this process takes the lifeline along: see [Link.Lifeline].
//
// [Link.Done] tells that the session has ended, and [Link.Wait] why: ErrKicked if the daemon runs on, else it was stopped or
// restarted. [Keep] holds a link over that, so that the device notices lost frames only. A link of Dial or Adopt has no way back: dial
// again and give the device the new descriptor, or restart the virtual machine where that cannot be done.
//
// [Control] tells who is connected and how the daemon is, and ends clients.
package attach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Link is one client's connection to a network, and its lifeline.
type Link struct {
	// File is the caller's end, with the transport that was asked for: one Ethernet frame per datagram, or on a stream
	// frames with a 4-byte big-endian length before each. It is nil after Adopt, whose caller has the end already.
	// It is closed in children unless they are given it as an ExtraFile.
	File *os.File
	// Info is what the daemon told of the network and of this link's interface.
	Info Info

	conn *net.UnixConn
	done chan struct{}
	err  error // why done was closed

	close func() error
}

// Dial asks the daemon whose stream socket is socket for a connected descriptor: a datagram socket unless
// WithTransport(Stream) says otherwise. Socket may also be the directory that holds the daemon's attach socket, which is
// SOCKET.d unless the daemon was started with --runtime-dir.
//
// The context covers the request only. An error of the daemon's is an *Error; one of the connection satisfies errors.Is with
// fs.ErrNotExist, fs.ErrPermission or syscall.ECONNREFUSED, and its text tells what to do.
func Dial(ctx context.Context, socket string, opts ...Option) (*Link, error) {
	o, err := options(opts)
	if err == nil && o.detached {
		err = errors.New("WithoutLifeline is for Adopt: the connection that Dial makes is the lifeline")
	}
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	l, err := ask(ctx, socket, "attach", &o, nil)
	if err != nil {
		return nil, err
	}
	if err := checkKind(l.File, o.request.Transport); err != nil {
		l.Close()
		return nil, fmt.Errorf("attach: the daemon's reply %w", err)
	}
	enlarge(l.File, l.Info.Transport)
	return l, nil
}

// Adopt hands file over to the daemon whose stream socket is socket: one end of a connected pair, or a datagram socket that is
// bound to a path, of which the daemon then serves the first sender only. The transport is the kind of that socket, a datagram
// socket unless WithTransport(Stream) says otherwise.
//
// The end that the caller keeps should have large socket buffers, as Dial sets them: on macOS SO_SNDBUF is the longest datagram.
// File stays the caller's, which closes it after Adopt; the daemon has a duplicate. Its flags are left alone; do not call its Fd
// method, which on some systems changes them for the daemon as well. What is said of Dial's socket, context and errors holds
// here.
func Adopt(ctx context.Context, socket string, file *os.File, opts ...Option) (*Link, error) {
	o, err := options(opts)
	if err == nil && file == nil {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	o.request.Wait = !o.detached
	l, err := ask(ctx, socket, "adopt", &o, file)
	if err != nil {
		return nil, err
	}
	if l.File != nil { // none was asked for
		l.File.Close()
		l.File = nil
	}
	if o.detached {
		return l, l.Close()
	}
	return l, nil
}

// stoppingTime is how long a daemon is asked again that says that it is stopping, and stoppingPause the distance: it may become another
// version of itself, which takes a moment; one that ends is gone soon.
const (
	stoppingTime  = 3 * time.Second
	stoppingPause = 10 * time.Millisecond
)

// ask sends a request, with a descriptor if file is not nil, and makes a Link of the reply.
func ask(ctx context.Context, socket, name string, o *settings, file *os.File) (*Link, error) {
	for began := time.Now(); ; {
		l, err := askOnce(ctx, socket, name, o, file)
		if !errors.Is(err, ErrStopping) || time.Since(began) >= stoppingTime {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(stoppingPause):
		}
	}
}

func askOnce(ctx context.Context, socket, name string, o *settings, file *os.File) (*Link, error) {
	conn, path, err := connect(ctx, socket, name)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	var (
		line []byte
		got  *os.File
		info Info
	)
	err = send(conn, o.request.encode(), file)
	if err == nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) { // it may answer and close before it has read
		line, got, err = receive(conn, path)
	}
	switch {
	case !stop():
		err = ctx.Err()
	case err == nil:
		info, err = decodeReply(line)
	}
	if err != nil {
		conn.Close()
		if got != nil {
			got.Close()
		}
		return nil, wrap(path, err)
	}
	return newLink(socket, conn, got, info), nil
}

// askTime is how long the end of a session may wait for the daemon's word on whether it runs on. One that stops in order has hidden its
// sockets by then, so that there is no wait.
const askTime = time.Second

// newLink starts to watch the lifeline. File and conn are the Link's from here on.
func newLink(socket string, conn *net.UnixConn, file *os.File, info Info) *Link {
	l := &Link{File: file, Info: info, conn: conn, done: make(chan struct{})}
	began := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var closed atomic.Bool
	l.close = sync.OnceValue(func() error {
		closed.Store(true)
		cancel()
		err := conn.Close() // net.ErrClosed: the daemon was first
		<-l.done
		if file != nil {
			file.Close() // a caller that has closed it already is right to
		}
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	})
	go func() {
		defer close(l.done)
		defer cancel()
		err := untilEnd(conn)
		age := time.Since(began)
		conn.Close()
		limit, stop := context.WithTimeout(ctx, askTime)
		defer stop()
		kicked := err == nil && ranOnFor(limit, socket, age)
		switch {
		case closed.Load():
			l.err = net.ErrClosed
		case err != nil:
			l.err = fmt.Errorf("%w: %w", ErrEnded, err)
		case kicked:
			l.err = ErrKicked
		default:
			l.err = ErrEnded
		}
	}()
	return l
}

// untilEnd waits for the end of the lifeline and throws away what else comes. It does not rely on the socket's flags: a holder
// of a duplicate may have changed them, as os/exec does with its ExtraFiles, and then a plain read would not be woken by
// Close.
func untilEnd(conn *net.UnixConn) error {
	buf, oob := make([]byte, 512), make([]byte, syscall.CmsgSpace(8*4))
	for {
		n, fds, err := recvmsg(conn, buf, oob)
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// Done is closed when the session has ended: by Close, or by the daemon. After WithoutLifeline it is closed from the start.
func (l *Link) Done() <-chan struct{} { return l.done }

// Wait waits for the session's end and returns ErrEnded if the daemon ended it, which is ErrKicked if the daemon runs on,
// net.ErrClosed after Close, or the context's error if that comes first.
func (l *Link) Wait(ctx context.Context) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Lifeline returns a duplicate of the lifeline for a child that may outlive this process: the session lives until each of
// them is closed, so it ends with the child. The caller closes it after the child has started, and must not use it otherwise.
// Call Close as well then, or the session lives as long as this process. A link of Keep has none: it needs this process.
func (l *Link) Lifeline() (*os.File, error) {
	if l.conn == nil {
		return nil, errors.New("attach: a kept link has no lifeline for a child: it needs this process to come back")
	}
	f, err := l.conn.File()
	if err != nil {
		return nil, fmt.Errorf("attach: duplicate the lifeline: %w", err)
	}
	return f, nil
}

// Close gives up the lifeline, which ends the session unless another process holds a duplicate, and closes File. It may be
// called more than once, from any goroutine.
func (l *Link) Close() error { return l.close() }

// ranOnFor reports whether the daemon on socket answers at its control socket, and has run for at least that long: through the life of a
// link, say. An upgrade in place does not count as an end.
func ranOnFor(ctx context.Context, socket string, age time.Duration) bool {
	hc := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // the daemon answers one request on a connection
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			// The first is for root and the daemon's user alone: members of the group cannot keep it busy.
			conn, _, err := connect(ctx, socket, "control.root")
			if err != nil {
				conn, _, err = connect(ctx, socket, "control")
			}
			if err != nil {
				return nil, err
			}
			return conn, nil
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/version", nil)
	if err != nil {
		return false
	}
	resp, err := hc.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var v struct {
		Uptime float64 `json:"uptime_s"`
	}
	return json.NewDecoder(http.MaxBytesReader(nil, resp.Body, 1<<16)).Decode(&v) == nil && v.Uptime >= age.Seconds()
}
