// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// parentFlags open a directory in which only names are used: it need not be readable.
const parentFlags = unix.O_PATH

// pathOf is a path of name in the directory to bind a socket to: there is no bind that takes a directory. Its true path serves where others
// cannot change where that leads; else its name in /proc.
func (d *Dir) pathOf(name string) (string, error) {
	real, _, err := hostfs.Follow(d.Path, os.Geteuid())
	if err == nil && len(real)+1+len(name) <= compat.MaxSocketPath {
		if same, err := (hostfs.Place{Name: real}).Holds(d.dir); err == nil && same {
			return real + "/" + name, nil
		}
	}
	return hostfs.ProcPath(d.dir) + "/" + name, nil
}

// prepare has datagrams carry their sender's user from the first one on.
func prepare(s *os.File, kind int) error {
	if kind != unix.SOCK_DGRAM {
		return nil
	}
	return unix.SetsockoptInt(int(s.Fd()), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
}

// fresh tells whether n can be a socket that has just been bound.
func fresh(n hostfs.Node) bool { return n.OwnSocket() }
