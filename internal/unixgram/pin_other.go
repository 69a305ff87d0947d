// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package unixgram

import "golang.org/x/sys/unix"

// A pin is nothing here: the system has no path that leads to an inode. The path is looked at again before each use.
type pin struct {
	via string // always ""
}

// pinPath looks at path itself, following no link in its last part.
func pinPath(path string) (pin, unix.Stat_t, error) {
	var st unix.Stat_t
	err := lstat(path, &st)
	return pin{}, st, err
}

// mayHang is not known.
func (pin) mayHang() bool { return false }

func (pin) close() {}
