// SPDX-License-Identifier: Apache-2.0

package mmsg

import "golang.org/x/sys/unix"

const plainFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
