// SPDX-License-Identifier: Apache-2.0

package vmnetsim

import (
	"io"
	"os"
	"syscall"
)

// getlk is F_OFD_GETLK.
const getlk = 36

// byteLocked tells whether a process holds the lock on a byte, as each living one does.
func byteLocked(f *os.File, at int64) bool {
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
	err := syscall.FcntlFlock(f.Fd(), getlk, &l)
	return err == nil && l.Type != syscall.F_UNLCK
}
