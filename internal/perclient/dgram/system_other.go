// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dgram

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

const (
	// replyOnly: each client takes datagrams from any socket, and no other is told of those that it has not read.
	replyOnly = true

	// repliesTell: macOS says ENOBUFS when a client has no room, and not when it has some again.
	repliesTell = false

	credentialLen = 0

	peekFlags = unix.MSG_PEEK | unix.MSG_DONTWAIT
)

// hold looks at path itself, following no link in its last part. It holds nothing: the system has no path that leads to an inode, so
// the path is looked at again before each use.
func hold(path string, st *unix.Stat_t) (link.Descriptor, error) {
	return link.Descriptor{}, lstat(path, st)
}

func through(link.Descriptor) string { return "" }

// mayHang is not known.
func mayHang(link.Descriptor) bool { return false }

// askSenders is nothing here: the system does not tell what sent a datagram.
func askSenders(int, bool) error { return nil }

func senderIn([]byte) sender { return sender{} }

// enlargeShared returns what the send buffer is.
func enlargeShared(fd int) (int, error) {
	return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
}

// yield lets other goroutines run.
func yield() { runtime.Gosched() }

// outstanding is 0: datagrams are charged to their receiver.
func outstanding(int) int { return 0 }
