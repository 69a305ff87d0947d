// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/lowfd"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// runtimes reports whether fd is the Go runtime's poller: all that is open and neither inherited nor kept before the first timer.
func runtimes(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && !hostfs.Inherited(fd) && !lowfd.Keeps(fd)
}

// leaveThreads does nothing: descriptors belong to the process here.
func leaveThreads() {}
