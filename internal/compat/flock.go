// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// flock takes the exclusive lock of f without waiting. A lock that somebody else has is EAGAIN. It is the same lock that
// macOS's O_EXLOCK takes, so it keeps socket_vmnet out and is kept out by it.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// isFileAt reports whether path, with no link followed, is the file that f has open. It is asked after the lock was taken:
// its former owner may have removed or replaced the file between open and flock, and then the lock is worth nothing.
func isFileAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, there), nil
}
