// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"math"

	"golang.org/x/sys/unix"
)

// peerOfFD asks who made the other end of the socket fd. Of a datagram socket that was connected to a path nothing is known, of
// a process in another PID namespace all but its number.
func peerOfFD(fd int) peer {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || c.Uid == math.MaxUint32 {
		return peer{}
	}
	return peer{known: true, uid: c.Uid, gid: c.Gid, pid: int(c.Pid)}
}
