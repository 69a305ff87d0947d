// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dgram

import "golang.org/x/sys/unix"

const (
	credentialLen = 0

	peekFlags = unix.MSG_PEEK | unix.MSG_DONTWAIT
)

// askSenders is nothing here: the system does not tell who sent a datagram.
func askSenders(int, bool) {}

// senderIn knows nobody.
func senderIn([]byte) sender { return sender{} }
