// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

const (
	// maxSocketPath is the longest path of a unix socket in bytes without its NUL: 103 on macOS, 107 on Linux.
	maxSocketPath = int(unsafe.Sizeof(unix.RawSockaddrUnix{}.Path)) - 1

	// firstFD is the first descriptor that is not a standard stream, the one that QEMU users write as fd=3.
	firstFD = 3
)

// connect connects fd to path.
func connect(fd int, path string) error {
	for {
		err := unix.Connect(fd, hostfs.Address(path))
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
	return target, hostfs.Dup2(fd, target)
}

// inherited reports whether fd is open and stays so in the command.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}
