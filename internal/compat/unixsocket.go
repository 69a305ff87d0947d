// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxSocketPath is maxSocketPath for others, who count a path that clients have to connect to.
const MaxSocketPath = maxSocketPath

// maxSocketPath is the longest path of a unix socket in bytes, its terminating NUL not counted: 103 on macOS, 107 on Linux.
const maxSocketPath = int(unsafe.Sizeof(unix.RawSockaddrUnix{}.Path)) - 1

// socketAt reports whether there is a socket at path. Anything else that is there is errInUse.
func socketAt(path string) (bool, error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, newTextError("bind", err)
	case fi.Mode()&fs.ModeSocket == 0:
		return false, errInUse
	}
	return true, nil
}

// sameSocket checks that fi, what is at the path now, is the socket that was bound there. Another name for it would let
// somebody keep it when the path is gone, so there must be none.
func sameSocket(fi, mine os.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || fi.Mode()&fs.ModeSocket == 0 || !os.SameFile(fi, mine) || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return syscall.EADDRINUSE
	}
	return nil
}

// probe connects to path and closes. It never waits: a daemon with a full backlog answers EAGAIN or EINPROGRESS.
func probe(path string) error {
	fd, err := newSocket()
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	return unix.Connect(fd, address(path))
}

// newSocket makes a stream socket that children do not inherit.
func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// BindPrivate binds the socket fd to path with mode 0600, so that nobody else has access before its owner is set. The
// umask of the process is changed for that moment. The error is a bare errno.
func BindPrivate(fd int, path string) error { return bindPrivate(fd, path) }

// bindPrivate binds fd to path with mode 0600.
func bindPrivate(fd int, path string) error {
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	return unix.Bind(fd, address(path))
}

// address is path as a socket address. On Linux a leading "@" would mean the abstract name space, which socket_vmnet's
// paths are never in.
func address(path string) *unix.SockaddrUnix {
	if strings.HasPrefix(path, "@") {
		path = "./" + path
	}
	return &unix.SockaddrUnix{Name: path}
}
