// SPDX-License-Identifier: Apache-2.0

package main

import "golang.org/x/sys/unix"

// dup2 makes target the same file as fd, without close-on-exec. Linux on arm64 has only dup3.
func dup2(fd, target int) error { return unix.Dup3(fd, target, 0) }
