// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"math"

	"golang.org/x/sys/unix"
)

// PeerOfFD asks who made the other end of the socket fd. Of a datagram socket that was connected to a path nothing is known, on
// Linux of a process in another PID namespace all but its number.
func PeerOfFD(fd int) Peer {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || c.Uid == math.MaxUint32 {
		return Peer{}
	}
	return Peer{Known: true, UID: c.Uid, GID: c.Gid, PID: int(c.Pid)}
}
