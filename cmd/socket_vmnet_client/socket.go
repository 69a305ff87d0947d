// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketPath is the longest path of a unix socket in bytes without its NUL: 103 on macOS, 107 on Linux.
	maxSocketPath = int(unsafe.Sizeof(unix.RawSockaddrUnix{}.Path)) - 1

	// bufferSize is what send and receive buffer are enlarged to, in bytes. A unix stream socket is bounded by the
	// buffers of the sending side, and macOS's default is 8 KiB: five frames.
	bufferSize = 256 << 10

	// firstFD is the first descriptor that is not a standard stream, the one that QEMU users write as fd=3.
	firstFD = 3
)

// newSocket returns a stream socket with large buffers.
func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
		enlarge(fd, unix.SO_SNDBUF)
		enlarge(fd, unix.SO_RCVBUF)
	}
	return fd, err
}

// enlarge asks for a buffer of bufferSize, unless it is that large already. A refusal costs speed only.
func enlarge(fd, option int) {
	if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err == nil && n < bufferSize {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, bufferSize)
	}
}

// connect connects fd to path. On Linux a leading "@" would mean the abstract name space, where no daemon's socket is.
func connect(fd int, path string) error {
	if strings.HasPrefix(path, "@") {
		path = "./" + path
	}
	for {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EISCONN): // after an interrupted one
			return nil
		default:
			return err
		}
	}
}

// passOn gives fd the lowest number from 3 on that is not taken by a file the caller wants passed on too, and keeps it open
// in the command. It returns that number. A descriptor with close-on-exec is one of the Go runtime's: it would be gone after exec
// anyway.
func passOn(fd int) (target int, err error) {
	target = firstFD
	for inherited(target) {
		target++
	}
	if target == fd {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		return target, err
	}
	return target, dup2(fd, target)
}

// inherited reports whether fd is open and stays so in the command.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}
