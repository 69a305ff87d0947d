// SPDX-License-Identifier: Apache-2.0

package passing

import (
	"os"

	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
)

// giverOf is in whose name a daemon of root's acts when p hands something over; nil if in its own.
func giverOf(p peercred.Peer) *link.User {
	if os.Geteuid() != 0 || p.Known && p.UID == 0 {
		return nil
	}
	return &link.User{UID: p.User(), GID: p.Group()}
}
