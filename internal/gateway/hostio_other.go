// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package gateway

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// receiveNow reads what is there without waiting (Go's descriptors are non-blocking), and control messages into oob.
func receiveNow(fd uintptr, b, oob []byte) (n, control int, err error) {
	for {
		if oob == nil {
			n, err = syscall.Read(int(fd), b)
		} else {
			n, control, _, _, err = unix.Recvmsg(int(fd), b, oob, 0)
		}
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), max(control, 0), err
		}
	}
}

// sendNow writes what the socket takes of head and b without waiting. From macOS 13.3 to 26.1 a write to an IPv6 socket may return a
// count that is wrong (FB19384824, noted in Chromium's socket_apple.cc): not one beyond what there is is believed.
func sendNow(fd uintptr, head, b []byte) (n int, err error) {
	for {
		if len(head) == 0 {
			n, err = syscall.Write(int(fd), b)
		} else {
			n, err = unix.SendmsgBuffers(int(fd), [][]byte{head, b}, nil, nil, 0)
		}
		if !errors.Is(err, syscall.EINTR) {
			return min(max(n, 0), len(head)+len(b)), err
		}
	}
}

// bufferOptions set the size of the pair's buffers.
var bufferOptions = []int{unix.SO_SNDBUF, unix.SO_RCVBUF}

// yield lets other goroutines run: without cgo the system has nothing for other processes.
func yield() { runtime.Gosched() }
