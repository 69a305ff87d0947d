// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoSocket tells that there is a daemon's SOCKET perhaps, but none for passing descriptors beside it. Callers may do with SOCKET.
var ErrNoSocket = errors.New("the daemon has no such socket")

const (
	// maxSocketPath is the longest path of a unix socket in bytes without its NUL: 103 on macOS, 107 on Linux.
	maxSocketPath = int(unsafe.Sizeof(unix.RawSockaddrUnix{}.Path)) - 1

	// connectPause is the distance of attempts to connect while the daemon's backlog is full, and of requests while it becomes
	// another version of itself.
	connectPause = 10 * time.Millisecond
)

// replaceTime is how long it is asked again: a daemon that becomes another version says "stopping", and so does one that ends, but
// that is gone soon.
var replaceTime = 10 * time.Second

// An Attached is a connection to the network.
type Attached struct {
	// File is the socket that carries the frames, in blocking mode. The caller owns it.
	File *os.File
	// Lifeline keeps the connection: when its last copy is closed the daemon ends it, and when the daemon ends it, reading
	// gives io.EOF. The caller owns it.
	Lifeline *os.File
	Reply    Reply
	// Line is the reply as it came, without its line end.
	Line []byte
}

// Close ends the connection.
func (a *Attached) Close() error { return errors.Join(a.File.Close(), a.Lifeline.Close()) }

// Attach asks the daemon at socket, the path of its stream socket or a directory with a socket named attach, for a connected
// descriptor. What the daemon answers as an error is a *Error in the chain of the one that is returned.
func Attach(ctx context.Context, socket string, r Request) (*Attached, error) {
	return asked(ctx, func() (*Attached, error) { return attach(ctx, socket, r) })
}

// asked returns what f does, again while the daemon is stopping.
func asked[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		v, err := f()
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != Stopping || time.Since(began) >= replaceTime {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(connectPause):
		}
	}
}

func attach(ctx context.Context, socket string, r Request) (*Attached, error) {
	c, path, err := connect(ctx, socket, "attach")
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	m, reply, err := ask(ctx, c, path, r, None)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	want := r.Transport
	if want == "" {
		want = Datagram
	}
	if err := checkKind(m.FD, want); err != nil {
		return nil, fmt.Errorf("the daemon at %s: %w", path, err)
	}
	lifeline, err := keep(c)
	if err != nil {
		return nil, err
	}
	a := &Attached{File: os.NewFile(uintptr(m.FD), "link"), Lifeline: lifeline, Reply: reply, Line: m.Line}
	m.FD = None
	return a, nil
}

// An Adopted is a descriptor that the daemon has taken.
type Adopted struct {
	Reply Reply // zero when nothing was asked
	// Lifeline is as in Attached, if the request had Wait set, else nil.
	Lifeline *os.File
}

// Adopt hands f, one end of a connected pair of sockets or a bound datagram socket, to the daemon at socket, as Attach has
// it. f stays open, and the caller closes it. With r being nil the daemon is told nothing and answers nothing: whether it
// serves f cannot be known.
func Adopt(ctx context.Context, socket string, f *os.File, r *Request) (*Adopted, error) {
	return asked(ctx, func() (*Adopted, error) { return adopt(ctx, socket, f, r) })
}

func adopt(ctx context.Context, socket string, f *os.File, r *Request) (*Adopted, error) {
	c, path, err := connect(ctx, socket, "adopt")
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("get descriptor of %s: %w", f.Name(), err)
	}
	a := &Adopted{}
	cerr := rc.Control(func(fd uintptr) {
		if r == nil {
			err = WriteMessage(c, []byte{0}, int(fd))
			return
		}
		var m Message
		m, a.Reply, err = ask(ctx, c, path, *r, int(fd))
		m.Close()
	})
	if err = errors.Join(cerr, err); err != nil {
		return nil, err
	}
	if r != nil && r.Wait {
		if a.Lifeline, err = keep(c); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Connect connects to a daemon's stream socket itself, without a request, as socket_vmnet_client does. The caller owns the
// file, which is in non-blocking mode and has large buffers.
func Connect(ctx context.Context, socket string) (*os.File, error) {
	c, err := dial(ctx, socket, socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	f, err := keep(c)
	if err != nil {
		return nil, err
	}
	if rc, err := f.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { SetBuffers(int(fd), Stream) })
	}
	return f, nil
}

// ask sends a request, with the descriptor fd, and reads the reply, which is no error.
func ask(ctx context.Context, c *net.UnixConn, path string, r Request, fd int) (Message, Reply, error) {
	none := Message{FD: None}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	werr := WriteMessage(c, r.Encode(), fd) // refused perhaps, with an answer to be read
	m, err := ReadMessage(c, MaxReply)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case werr != nil:
			err = werr
		case errors.Is(err, io.EOF):
			err = errors.New("it closed the connection without an answer")
		default:
			err = errors.New(err.Error()) // not one that the daemon told us
		}
		return none, Reply{}, fmt.Errorf("the daemon at %s: %w", path, err)
	}
	reply, err := DecodeReply(m.Line)
	if err == nil && reply.Error != nil {
		err = reply.Error
	}
	if err != nil {
		m.Close()
		return none, Reply{}, fmt.Errorf("the daemon at %s: %w", path, err)
	}
	return m, reply, nil
}

// keep is the connection as a file, with no deadline.
func keep(c *net.UnixConn) (*os.File, error) {
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("keep the connection: %w", err)
	}
	f, err := c.File()
	if err != nil {
		return nil, fmt.Errorf("keep the connection: %w", err)
	}
	return f, nil
}

// checkKind checks what the daemon sent.
func checkKind(fd int, t Transport) error {
	if fd == None {
		return errors.New("its answer came without a descriptor")
	}
	want := unix.SOCK_DGRAM
	if t == Stream {
		want = unix.SOCK_STREAM
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != want {
		return fmt.Errorf("its descriptor is no %s socket", t)
	}
	return nil
}

// socketPath is where the daemon with the stream socket at socket has its socket name, "attach" or "adopt". A directory may be given
// for socket: it holds name.
func socketPath(socket, name string) string {
	if fi, err := os.Stat(socket); err == nil && fi.IsDir() {
		return filepath.Join(socket, name)
	}
	return socket + ".d/" + name
}

// connect connects to the daemon's socket name. It waits while the daemon is busy.
func connect(ctx context.Context, socket, name string) (*net.UnixConn, string, error) {
	path := socketPath(socket, name)
	c, err := dial(ctx, socket, path)
	return c, path, err
}

// dial connects to path, which belongs to the daemon at socket.
func dial(ctx context.Context, socket, path string) (*net.UnixConn, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path %s is too long for a socket: %d bytes of at most %d; "+
			"give the daemon a shorter SOCKET or --runtime-dir", path, len(path), maxSocketPath)
	}
	addr := path
	if strings.HasPrefix(addr, "@") { // else Linux takes it for a name without a file
		addr = "./" + addr
	}
	c, err := dialBusy(ctx, addr, refusedTime)
	switch {
	case errors.Is(err, errBusy):
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	case err != nil:
		return nil, explain(err, socket, path)
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("connect to %s: not a unix socket", path)
	}
	return uc, nil
}

// errBusy is what a daemon is whose backlog stays full.
var errBusy = errors.New("it is busy")

// dialBusy connects to addr, again while the backlog is full. A refusal, which may mean that, counts after refused only.
func dialBusy(ctx context.Context, addr string, refused time.Duration) (net.Conn, error) {
	for began := time.Now(); ; {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", addr)
		if !errors.Is(err, syscall.EAGAIN) && (!errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) >= refused) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), errBusy)
		case <-time.After(connectPause):
		}
	}
}

// explain words why path cannot be connected to.
func explain(err error, socket, path string) error {
	var no syscall.Errno
	if !errors.As(err, &no) {
		return fmt.Errorf("connect to %s: %w", path, err)
	}
	failed := fmt.Errorf("connect to %s: %w", path, no) // last: the system's text may be put in other words
	switch no {
	case syscall.ENOENT, syscall.ENOTDIR:
		if _, serr := os.Lstat(socket); errors.Is(serr, fs.ErrNotExist) {
			return fmt.Errorf("no daemon runs at %s; start one, or name the socket of the one that runs: %w", socket, failed)
		}
		if socket == path {
			return failed
		}
		return fmt.Errorf("%w; it is older, or --runtime-dir has it elsewhere or turned off: see the daemon's log, "+
			"and name that directory in place of SOCKET: %w", ErrNoSocket, failed)
	case syscall.ECONNREFUSED:
		return fmt.Errorf("no daemon listens there any more: %w", failed)
	case syscall.EACCES, syscall.EPERM:
		return fmt.Errorf("%s: %w", whoMay(path), failed)
	}
	return failed
}

// whoMay tells which group may connect to path. What cannot be looked at has the group of the directory it is in.
func whoMay(path string) string {
	for p := path; ; p = filepath.Dir(p) {
		fi, err := os.Lstat(p)
		if err != nil && p != filepath.Dir(p) {
			continue
		}
		if err != nil {
			break
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			break
		}
		gid := strconv.FormatUint(uint64(st.Gid), 10)
		name := gid
		if g, err := user.LookupGroupId(gid); err == nil {
			name = g.Name
		}
		return fmt.Sprintf("%s is for the members of group %q; become one, or start the daemon with --socket-group", p, name)
	}
	return "ask who started the daemon"
}
