// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// backlog asks for the system's maximum: both kernels cut it down to kern.ipc.somaxconn or net.core.somaxconn.
const backlog = 1<<16 - 1

// NewSocket makes a unix socket that children do not inherit.
func NewSocket(kind int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// BindPrivate binds the socket fd to path with mode 0600, so that others have no access before its owner is set. The
// umask of the process is changed for that moment. The error is a bare errno.
func BindPrivate(fd int, path string) error {
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return unix.Bind(fd, Address(path))
}

// Address is path as a socket address. On Linux a leading "@" would mean the abstract name space, which is never meant here.
func Address(path string) *unix.SockaddrUnix {
	if strings.HasPrefix(path, "@") {
		path = "./" + path
	}
	return &unix.SockaddrUnix{Name: path}
}

// Listen makes the bound socket f listen. The listener has a duplicate of f, and its Close leaves the path alone.
func Listen(f *os.File) (*net.UnixListener, error) {
	if err := unix.Listen(int(f.Fd()), backlog); err != nil {
		return nil, err
	}
	return Listener(f)
}

// Listener is Listen for a socket that listens already.
func Listener(f *os.File) (*net.UnixListener, error) {
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	ul, ok := ln.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(unix.ENOTSOCK, ln.Close())
	}
	ul.SetUnlinkOnClose(false)
	return ul, nil
}

// Datagram is f as a connection with a duplicate of it, whose Close leaves the path alone.
func Datagram(f *os.File) (*net.UnixConn, error) {
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(unix.ENOTSOCK, c.Close())
	}
	return uc, nil
}
