// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package rundir

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// parentFlags open a directory in which only names are used.
const parentFlags = unix.O_RDONLY

// pathOf is a path of name in the directory to bind a socket to. There is no bind that takes a directory, so it is the path, after
// a look whether that leads to the directory that was checked; take looks again. A user who may write in the parent and puts a link there in
// between has an empty socket with mode 0600 made in a directory of choice, and nothing else.
func (d *Dir) pathOf(name string) (string, error) {
	same, err := hostfs.Place{Name: d.Path}.Holds(d.dir)
	if err == nil && !same {
		err = unix.EADDRINUSE
	}
	return d.Path + "/" + name, err
}

// prepare has nothing to do: the system does not tell who sent a datagram.
func prepare(*os.File, int) error { return nil }

// fresh tells whether n can be a socket that has just been bound: hostfs.BindPrivate's mode tells it from others of our user.
func fresh(n hostfs.Node) bool { return n.OwnSocket() && n.Mode&0o7777 == 0o600 }
