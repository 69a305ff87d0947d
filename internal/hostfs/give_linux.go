// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Give gives n, a socket of this process, to uid and gid (-1: unchanged) and then sets its mode. The socket is held by a
// descriptor meanwhile: those who may write in its directory, as Colima's users may, could otherwise have root change a file
// of their choice by putting a link in its place. step names what failed.
func (p Place) Give(n Node, uid, gid int, mode uint32) (step string, err error) {
	f, err := p.Open(unix.O_PATH)
	if err != nil {
		return "chown", err
	}
	defer func() { _ = f.Close() }()
	if there, err := NodeOf(f); err != nil || !there.Same(n) || !there.OwnSocket() {
		return "chown", unix.EADDRINUSE
	}
	if err := unix.Fchownat(int(f.Fd()), "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
		return "chown", err
	}
	// There is no chmod of an O_PATH descriptor before Linux 6.6 but through its name in /proc.
	return "chmod", unix.Chmod(ProcPath(f), mode)
}

// ProcPath is the name in /proc of what f has open, wherever it has been moved. It means nothing to other processes.
func ProcPath(f *os.File) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd())))
}
