// SPDX-License-Identifier: Apache-2.0

package hostfs

import "golang.org/x/sys/unix"

// PeerOfFD asks who made the other end of the socket fd.
func PeerOfFD(fd int) (p Peer) {
	const solLocal = 0
	if c, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED); err == nil {
		p.Known, p.UID = true, c.Uid
		if c.Ngroups > 0 {
			p.GID = c.Groups[0]
		}
	}
	if pid, err := unix.GetsockoptInt(fd, solLocal, unix.LOCAL_PEERPID); err == nil {
		p.PID = pid // alone it tells nothing of rights
	}
	return p
}
