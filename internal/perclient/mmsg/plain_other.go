// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mmsg

import "golang.org/x/sys/unix"

const plainFlags = unix.MSG_DONTWAIT // Go ignores SIGPIPE of sockets
