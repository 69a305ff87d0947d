// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package mmsg

import "golang.org/x/sys/unix"

const (
	// canSendNow: a send waits where the descriptor does.
	canSendNow = false
	// longestPath is what a name can be.
	longestPath = 103

	// takesNoMore is the error of a datagram for a peer that did SHUT_RD (sbappendaddr in XNU's bsd/kern/uipc_socket2.c).
	takesNoMore = unix.EINVAL
	// noPeer is what a send says once it was told that the peer has gone (sosendcheck in XNU's bsd/kern/uipc_socket.c).
	noPeer = unix.EDESTADDRREQ
)

var otherNames []string
