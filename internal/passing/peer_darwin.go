// SPDX-License-Identifier: Apache-2.0

package passing

import "golang.org/x/sys/unix"

// peerOfFD asks who is at the other end of the socket fd.
func peerOfFD(fd int) (p peer) {
	const solLocal = 0
	if c, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED); err == nil {
		p.known, p.uid = true, c.Uid
		if c.Ngroups > 0 {
			p.gid = c.Groups[0]
		}
	}
	if pid, err := unix.GetsockoptInt(fd, solLocal, unix.LOCAL_PEERPID); err == nil {
		p.pid = pid // alone it tells nothing of rights
	}
	return p
}
