// SPDX-License-Identifier: Apache-2.0

package passing

import "net"

// A peer is the process at the other end of a connection, as it was when it connected.
type peer struct {
	known    bool
	uid, gid uint32
	pid      int // 0 where the system does not tell
}

// args are key and value for logs.
func (p peer) args() []any {
	if !p.known {
		return nil
	}
	args := []any{"peer_uid", p.uid, "peer_gid", p.gid}
	if p.pid > 0 {
		args = append(args, "peer_pid", p.pid)
	}
	return args
}

// peerOf asks who is at the other end of c.
func peerOf(c *net.UnixConn) (p peer) {
	rc, err := c.SyscallConn()
	if err != nil {
		return peer{}
	}
	_ = rc.Control(func(fd uintptr) { p = peerOfFD(int(fd)) })
	return p
}
