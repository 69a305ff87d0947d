// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package link

import "golang.org/x/sys/unix"

func readNow(fd int, b []byte) (int, error) { return unix.Read(fd, b) }

func writeOnce(fd int, b []byte) (int, error) { return unix.Write(fd, b) }
