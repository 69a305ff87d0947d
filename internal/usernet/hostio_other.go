// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package usernet

import (
	"errors"
	"syscall"
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
