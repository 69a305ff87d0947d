// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"cmp"
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
	c, m, reply, err := ask(ctx, socket, "attach", r, None)
	if err != nil {
		return nil, err
	}
	defer func() {
		m.Close()
		_ = c.Close()
	}()
	if err := checkKind(m.FD, r.Transport); err != nil {
		return nil, fmt.Errorf("the daemon at %s: %w", c.RemoteAddr(), err)
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
func Adopt(ctx context.Context, socket string, f *os.File, r *Request) (a *Adopted, err error) {
	rc, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("get descriptor of %s: %w", f.Name(), err)
	}
	cerr := rc.Control(func(fd uintptr) { a, err = adopt(ctx, socket, int(fd), r) })
	return a, errors.Join(cerr, err)
}

func adopt(ctx context.Context, socket string, fd int, r *Request) (*Adopted, error) {
	if r == nil {
		c, err := dial(ctx, socket, socketPath(socket, "adopt"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }()
		return &Adopted{}, WriteMessage(c, []byte{0}, fd)
	}
	c, m, reply, err := ask(ctx, socket, "adopt", *r, fd)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	m.Close()
	a := &Adopted{Reply: reply}
	if r.Wait {
		a.Lifeline, err = keep(c)
	}
	return a, err
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

// ask sends a request to the daemon's socket name, with the descriptor fd, and reads the reply, which is no error; again while the
// daemon is stopping. The caller closes the connection and the message.
func ask(ctx context.Context, socket, name string, r Request, fd int) (*net.UnixConn, Message, Reply, error) {
	path := socketPath(socket, name)
	for began := time.Now(); ; {
		c, err := dial(ctx, socket, path)
		if err != nil {
			return nil, Message{}, Reply{}, err
		}
		m, reply, err := askOnce(ctx, c, r, fd)
		if err == nil {
			return c, m, reply, nil
		}
		_ = c.Close()
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != Stopping || time.Since(began) >= replaceTime || !pause(ctx) {
			return nil, Message{}, Reply{}, fmt.Errorf("the daemon at %s: %w", path, err)
		}
	}
}

func askOnce(ctx context.Context, c *net.UnixConn, r Request, fd int) (m Message, reply Reply, err error) {
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	werr := WriteMessage(c, r.Encode(), fd) // refused perhaps, with an answer to be read
	m, err = ReadMessage(c, MaxReply)
	switch {
	case err == nil:
		if reply, err = DecodeReply(m.Line); err == nil && reply.Error != nil {
			err = reply.Error
		}
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case werr != nil:
		err = werr
	case errors.Is(err, io.EOF):
		err = errors.New("it closed the connection without an answer")
	default:
		err = errors.New(err.Error()) // not one that the daemon told us
	}
	if err != nil {
		m.Close()
	}
	return m, reply, err
}

// pause waits for a moment, unless ctx ends.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(connectPause):
		return true
	}
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

// checkKind checks what the daemon sent. No transport is Datagram.
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
		return fmt.Errorf("its descriptor is no %s socket", cmp.Or(t, Datagram))
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
	return c, nil
}

// errBusy is what a daemon is whose backlog stays full.
var errBusy = errors.New("it is busy")

// dialBusy connects to addr, again while the backlog is full. A refusal, which may mean that, counts after refused only.
func dialBusy(ctx context.Context, addr string, refused time.Duration) (*net.UnixConn, error) {
	for began := time.Now(); ; {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: addr, Net: "unix"}) // it does not wait
		if !errors.Is(err, syscall.EAGAIN) && (!errors.Is(err, syscall.ECONNREFUSED) || time.Since(began) >= refused) {
			return c, err
		}
		if !pause(ctx) {
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), errBusy)
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
	var st unix.Stat_t
	for unix.Lstat(path, &st) != nil {
		if path == filepath.Dir(path) {
			return "ask the user that started the daemon"
		}
		path = filepath.Dir(path)
	}
	name := strconv.FormatUint(uint64(st.Gid), 10)
	if g, err := user.LookupGroupId(name); err == nil {
		name = g.Name
	}
	return fmt.Sprintf("%s is for the members of group %q; become one, or start the daemon with --socket-group", path, name)
}
