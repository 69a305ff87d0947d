// SPDX-License-Identifier: Apache-2.0

package proto

import "golang.org/x/sys/unix"

// controlLen has room for two descriptors, in bytes: one more than a message may have. Linux closes those that do not fit
// and says so, which is better than to have hundreds open for a moment because somebody sent them.
var controlLen = unix.CmsgSpace(2 * 4)
