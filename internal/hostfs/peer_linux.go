// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"math"

	"golang.org/x/sys/unix"
)

func peerOfFD(fd int) Peer {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || c.Uid == math.MaxUint32 {
		return Peer{}
	}
	return Peer{Known: true, UID: c.Uid, GID: c.Gid, PID: int(c.Pid)}
}
