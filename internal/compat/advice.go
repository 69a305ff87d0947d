// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// advice tells what to do about err, which came of making a file at path; empty: err tells all.
func advice(path string, err error) string {
	dir, place := filepath.Dir(path), "$XDG_RUNTIME_DIR"
	if runtime.GOOS == "darwin" {
		place = "$HOME"
	}
	_, missing := os.Stat(dir)
	switch absent := errors.Is(err, fs.ErrNotExist); {
	case absent && strings.HasPrefix(path, "~/"):
		return `"~" was not expanded by the shell: write "$HOME"` + path[1:]
	case absent && errors.Is(missing, fs.ErrNotExist):
		return fmt.Sprintf("the directory %s does not exist: create it", dir)
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return fmt.Sprintf("this user may not make %s: use sudo, or a path in %s", path, place)
	}
	return ""
}

// process names one by its number, 0 if that is not known.
func process(pid int) string {
	if pid > 0 {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}

// kindOf is what a file is that is not a socket.
func kindOf(n hostfs.Node) string {
	switch n.Kind() {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFLNK:
		return "a symbolic link"
	}
	return "not a socket"
}

// fail is err of making the socket, with its path and what to do.
func (l *SocketLock) fail(err error, what string) error {
	return newTextError("bind", err).advise(cmp.Or(what, advice(l.at.Name, err), l.at.Name))
}

// taken is that another process, pid where that is known, has the path.
func (l *SocketLock) taken(pid int) error {
	return l.fail(syscall.EADDRINUSE, fmt.Sprintf("%s serves %s already: see socket_vmnet2 status %[2]s", process(pid), l.at.Name))
}
