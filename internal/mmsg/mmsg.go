// SPDX-License-Identifier: Apache-2.0

// Package mmsg sends and receives many datagrams of a unix socket with one system call, one Ethernet frame in each and no
// length in front: recvmmsg and sendmmsg on Linux, recvmsg_x and sendmsg_x on macOS where the system has them, else one call
// per datagram. Nothing in it waits, whatever the descriptor's flags say, where the system lets a single call say so.
package mmsg

const (
	// BatchLen is how many datagrams one call moves. More gained nothing on Linux.
	BatchLen = 32

	// MaxLen is the longest frame that is carried as a datagram, in bytes: a TCP segment of 64 KiB with its Ethernet header,
	// which is what libkrun's buffers are made for.
	MaxLen = 65550
)
