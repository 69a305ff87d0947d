// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package gateway

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// readNow reads what is there without waiting: Go's descriptors are non-blocking.
func readNow(fd uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), b)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

// writeNow writes what the socket takes without waiting. From macOS 13.3 to 26.1 a write to an IPv6 socket may return a count that is
// wrong (FB19384824, noted in Chromium's socket_apple.cc): not one beyond b is believed.
func writeNow(fd uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), b)
		if !errors.Is(err, syscall.EINTR) {
			return min(max(n, 0), len(b)), err
		}
	}
}

// write writes what the socket takes without waiting.
func (v *vector) write(fd uintptr) (int, error) {
	if len(v[0]) == 0 {
		return writeNow(fd, v[1])
	}
	for {
		n, err := unix.SendmsgBuffers(int(fd), v[:], nil, nil, 0)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// receive reads what is there without waiting, and the control messages that come with it.
func (m *message) receive(fd uintptr, b []byte) (n int, oob []byte, err error) {
	for {
		n, oobn, _, _, err := unix.Recvmsg(int(fd), b, m.oob[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), m.oob[:max(oobn, 0)], err
		}
	}
}

// bufferOptions set the size of the pair's buffers.
var bufferOptions = []int{unix.SO_SNDBUF, unix.SO_RCVBUF}

// Yield lets other goroutines run: without cgo the system has nothing for other processes.
func Yield() { runtime.Gosched() }
