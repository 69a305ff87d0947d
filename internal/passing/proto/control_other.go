// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proto

// controlLen has room for more than anybody can send at once, in bytes: macOS loses descriptors that do not fit, so that
// nobody could close them. It takes 2 KiB in one call, and leaves the next sender's for the next read.
const controlLen = 16 << 10

// datagramSend is asked for as send buffer for datagrams, in bytes. On macOS it is only the longest datagram.
const datagramSend = 65 << 10
