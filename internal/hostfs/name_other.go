// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package hostfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// PathOf is the path of the file that fd is, on Linux, or what else it is, such as "pipe:[7]". It is empty if that is not known.
func PathOf(fd int) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return name
}

// Dup2 makes target the same file as fd, without close-on-exec. Linux on arm64 has only dup3.
func Dup2(fd, target int) error { return unix.Dup3(fd, target, 0) }
