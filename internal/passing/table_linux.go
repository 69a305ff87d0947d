// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A socketTable asks the kernel about sockets of this network namespace, by sock_diag(7). A unix socket whose other end was
// closed still names it as its peer, by the inode number 0.
type socketTable struct{ fd int }

// openSocketTable opens the table. One that cannot be opened knows nothing.
func openSocketTable() *socketTable {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return &socketTable{fd: -1}
	}
	// The kernel answers before sendto returns; without an answer nothing is known.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	return &socketTable{fd: fd}
}

func (t *socketTable) close() {
	if t.fd >= 0 {
		_ = unix.Close(t.fd)
	}
}

const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	udiagShowPeer    = 4  // UDIAG_SHOW_PEER
	unixDiagPeer     = 2  // UNIX_DIAG_PEER

	unixDiagReqLen = 24 // sizeof(struct unix_diag_req)
	unixDiagMsgLen = 16 // sizeof(struct unix_diag_msg)
)

// peer asks for the other end of the socket with inode number ino.
func (t *socketTable) peer(ino uint64) peerState {
	if t.fd < 0 || ino == 0 || ino>>32 != 0 {
		return peerUnknown
	}
	n := binary.NativeEndian
	req := make([]byte, unix.SizeofNlMsghdr+unixDiagReqLen)
	n.PutUint32(req, uint32(len(req)))
	n.PutUint16(req[4:], sockDiagByFamily)
	n.PutUint16(req[6:], unix.NLM_F_REQUEST)
	body := req[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_UNIX
	n.PutUint32(body[4:], 0xffffffff) // whatever its state
	n.PutUint32(body[8:], uint32(ino))
	n.PutUint32(body[12:], udiagShowPeer)
	n.PutUint64(body[16:], 0xffffffffffffffff) // INET_DIAG_NOCOOKIE
	if err := unix.Sendto(t.fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return peerUnknown
	}
	answer := make([]byte, 4096)
	got, _, err := unix.Recvfrom(t.fd, answer, 0)
	if err != nil {
		return peerUnknown
	}
	return peerIn(answer[:got], uint32(ino))
}

// peerIn reads the answer about the socket with inode number ino.
func peerIn(b []byte, ino uint32) peerState {
	n := binary.NativeEndian
	if len(b) < unix.SizeofNlMsghdr+unixDiagMsgLen || n.Uint16(b[4:]) != sockDiagByFamily || n.Uint32(b[20:]) != ino {
		return peerUnknown // an error: of another namespace, for one
	}
	attrs := b[unix.SizeofNlMsghdr+unixDiagMsgLen:]
	for len(attrs) >= unix.SizeofNlAttr {
		l := int(n.Uint16(attrs))
		if l < unix.SizeofNlAttr || l > len(attrs) {
			break
		}
		if n.Uint16(attrs[2:]) == unixDiagPeer && l >= unix.SizeofNlAttr+4 {
			if n.Uint32(attrs[unix.SizeofNlAttr:]) == 0 {
				return peerClosed
			}
			return peerOpen
		}
		attrs = attrs[min((l+3)&^3, len(attrs)):]
	}
	return peerUnknown
}
