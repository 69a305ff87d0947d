// SPDX-License-Identifier: Apache-2.0

package proto

import "golang.org/x/sys/unix"

// controlLen has room for two descriptors, in bytes: one more than a message may have. Linux closes those that do not fit
// and says so, which is better than to have hundreds open for a moment because somebody sent them.
var controlLen = unix.CmsgSpace(2 * 4)

// datagramSend is asked for as send buffer for datagrams, in bytes. On Linux it bounds what the other side may be behind with;
// package link says why it is so large.
const datagramSend = 512 << 10
