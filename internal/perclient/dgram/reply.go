// SPDX-License-Identifier: Apache-2.0

package dgram

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A reply is a datagram socket without a name of its own, connected to one client. Nobody can send anything to it.
type reply struct {
	conn *net.UnixConn
	rc   syscall.RawConn
	fd   int // of conn
}

// errElsewhere: a path led to a socket that was bound by another name.
var errElsewhere = errors.New("the path leads to a socket that was bound by another name")

// openReply connects a new socket to t. EPERM: the client has connected its socket to another one, and takes nothing from
// this one.
func openReply(t *target) (*reply, error) {
	conn, err := t.connect()
	if err != nil {
		return nil, err
	}
	return newReply(conn)
}

// newReply makes a reply of a connected socket, which it takes over.
func newReply(conn *net.UnixConn) (*reply, error) {
	rc, err := conn.SyscallConn()
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("get descriptor of reply socket: %w", err)
	}
	_ = conn.SetWriteDeadline(time.Time{}) // a detached link has woken its drainer by one
	r := &reply{conn: conn, rc: rc}
	err = rc.Control(func(fd uintptr) {
		r.fd = int(fd)
		enlarge(r.fd, unix.SO_SNDBUF, replyBufLen)
	})
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("get descriptor of reply socket: %w", err)
	}
	return r, nil
}

// connect connects a new socket to what was checked: to its inode itself where the system can name that; else it looks
// before, and after at the name that the peer has bound.
func (t *target) connect() (*net.UnixConn, error) {
	if t.pin.via == "" && !t.same() {
		return nil, unix.ENOENT
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: t.name(), Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("connect to client: %w", err)
	}
	peer, ok := conn.RemoteAddr().(*net.UnixAddr)
	switch {
	case !ok || peer == nil:
		err = unix.ECONNREFUSED // it has gone meanwhile
	case peer.Name != t.path:
		err = fmt.Errorf("connect to client %q: %w: %q", t.path, errElsewhere, peer.Name)
	case t.pin.via == "" && !t.same():
		err = unix.ENOENT
	default:
		return conn, nil
	}
	_ = conn.Close()
	return nil, err
}

// name is what to give to connect and sendto.
func (t *target) name() string {
	if t.pin.via != "" {
		return t.pin.via
	}
	return t.path
}

// alive reports whether a process has the socket. It asks by connecting: sending something would be taken for a frame.
func (t *target) alive() bool {
	conn, err := t.connect()
	if err == nil {
		_ = conn.Close()
	}
	return !isGone(err)
}

// wait waits until the client has room, until close or wake.
func (r *reply) wait() {
	_ = r.rc.Write(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// wake ends wait, now and later.
func (r *reply) wake() { _ = r.conn.SetWriteDeadline(time.Unix(1, 0)) }

func (r *reply) close() { _ = r.conn.Close() }
