// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package dgram

import (
	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
)

// A pin is nothing here: the system has no path that leads to an inode. The path is looked at again before each use.
type pin struct {
	via string // always ""
}

// pinPath looks at path itself, following no link in its last part.
func pinPath(path string) (pin, unix.Stat_t, error) {
	var st unix.Stat_t
	err := lstat(path, &st)
	return pin{}, st, err
}

// descriptor is none.
func (pin) descriptor() link.Descriptor { return link.Descriptor{} }

// pinOf makes no pin: what the client's path leads to is compared with id before each use, so that nothing is trusted that took its
// place.
func pinOf(link.Descriptor, inode) (pin, error) { return pin{}, nil }

// mayHang is not known.
func (pin) mayHang() bool { return false }

func (pin) close() {}

// left reports whether the client has closed its socket, wherever its path leads to now: the reply has no peer any more then
// (unp_drop in XNU's bsd/kern/uipc_usrreq.c).
func (r *reply) left() (left, known bool) {
	_, err := unix.Getpeername(r.fd)
	return isGone(err), true
}
