// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"net"
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
)

// A peer is the process at the other end of a connection, as it was when it connected.
type peer struct {
	known    bool
	uid, gid uint32
	pid      int // 0 where the system does not tell
}

// nobody is a user that owns nothing, and stands for one that is not known.
const nobody = 65534

// user is the peer's, nobody if it is not known.
func (p peer) user() uint32 {
	if !p.known {
		return nobody
	}
	return p.uid
}

// giver is in whose name a daemon of root's acts when p hands something over; nil if in its own.
func (p peer) giver() *link.User {
	switch {
	case os.Geteuid() != 0, p.known && p.uid == 0:
		return nil
	case !p.known:
		return &link.User{UID: nobody, GID: nobody}
	}
	return &link.User{UID: p.uid, GID: p.gid}
}

// args are key and value for logs.
func (p peer) args() []any {
	if !p.known {
		return nil // nor the process alone
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
