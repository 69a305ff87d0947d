// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// systemVersion is the system and the version of its kernel.
func systemVersion() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}
