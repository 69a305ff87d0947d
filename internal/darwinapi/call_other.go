// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package darwinapi

import "golang.org/x/sys/unix"

// Read is for systems whose program is not released, as is Write.
func Read(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

// Write writes.
func Write(fd int, b []byte) (int, error) { return unix.Write(fd, b) }
