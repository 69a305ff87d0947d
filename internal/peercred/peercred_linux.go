// SPDX-License-Identifier: Apache-2.0

package peercred

import (
	"math"

	"golang.org/x/sys/unix"
)

func ofFD(fd int) Peer {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || c.Uid == math.MaxUint32 {
		return Peer{}
	}
	return Peer{Known: true, UID: c.Uid, GID: c.Gid, PID: int(c.Pid)}
}
