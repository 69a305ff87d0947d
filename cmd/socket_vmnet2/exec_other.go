// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "golang.org/x/sys/unix"

// dup2 makes target the same file as fd, without close-on-exec.
func dup2(fd, target int) error { return unix.Dup2(fd, target) }

// leaveThreads does nothing: descriptors belong to the process here.
func leaveThreads() {}
