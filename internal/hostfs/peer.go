// SPDX-License-Identifier: Apache-2.0

package hostfs

import "net"

// A Peer is the process at the other end of a connection, as it was when it connected. The zero Peer is one of which nothing is
// known.
type Peer struct {
	Known bool   `json:"known,omitempty"` // UID and GID are
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	PID   int    `json:"pid,omitempty"` // 0 where the system does not tell; it may be another process's by now
	// Unverified: not the system has told the user, but the owner of the client's file has been taken for it. Then GID and PID
	// are not known.
	Unverified bool `json:"unverified,omitempty"`
}

// nobody is the system's user of that name, which owns nothing; it stands for a user that is not known.
const nobody = 65534

// User is the peer's, nobody's if it is not known.
func (p Peer) User() uint32 {
	if !p.Known {
		return nobody
	}
	return p.UID
}

// Group is the peer's, nobody's if it is not known.
func (p Peer) Group() uint32 {
	if !p.Known || p.Unverified {
		return nobody
	}
	return p.GID
}

// Args are keys and values for logs, none when nothing is known.
func (p Peer) Args() []any {
	switch {
	case !p.Known:
		return nil // nor the process alone
	case p.Unverified:
		return []any{"peer_uid", p.UID, "unverified", true}
	case p.PID > 0:
		return []any{"peer_uid", p.UID, "peer_gid", p.GID, "peer_pid", p.PID}
	}
	return []any{"peer_uid", p.UID, "peer_gid", p.GID}
}

// PeerOf asks who is at the other end of c.
func PeerOf(c *net.UnixConn) (p Peer) {
	rc, err := c.SyscallConn()
	if err != nil {
		return Peer{}
	}
	_ = rc.Control(func(fd uintptr) { p = PeerOfFD(int(fd)) })
	return p
}
