// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// path is where the socket of a role lies. Empty: there is no such place.
func (o Options) path(role string) string {
	switch {
	case role == Stream:
		return o.Socket
	case o.Dir == "":
		return ""
	case role == Dgram:
		return filepath.Join(o.Dir, "dgram", "sock")
	}
	return filepath.Join(o.Dir, role)
}

// check tells which socket g is and the path that it is bound to, and whether it can be that.
func (g descriptor) check(o Options) (path, role string, err error) {
	if path, err = boundPath(g.fd); err != nil {
		return "", "", err
	}
	i := slices.IndexFunc(roles, func(role string) bool { return samePath(path, o.path(role)) })
	if i < 0 {
		return "", "", fmt.Errorf("it listens at %s, which is neither SOCKET (%s) nor a socket beside it (in %s)", path, o.Socket,
			cmp.Or(o.Dir, "none, as --runtime-dir says"))
	}
	role = roles[i]
	if err = g.checkKind(role); err != nil {
		return "", "", fmt.Errorf("the socket at %s %w", path, err)
	}
	if info, err := os.Lstat(o.path(role)); err != nil || info.Mode()&os.ModeSocket == 0 {
		o.Log.Warn("no client can connect to a socket that was given: its path is gone; restart the socket's unit or job", "path", o.path(role))
	}
	return path, role, nil
}

// boundPath is the path that a unix socket is bound to.
func boundPath(fd int) (string, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return "", fmt.Errorf("ask for its address: %w", err)
	}
	ua, ok := sa.(*unix.SockaddrUnix)
	if !ok {
		return "", errors.New("it is not a unix socket")
	}
	if !filepath.IsAbs(ua.Name) {
		return "", fmt.Errorf("it is not bound to an absolute path, but to %q", ua.Name)
	}
	return ua.Name, nil
}

// checkKind checks that it is a socket of the role's kind. The text of the error goes on after the socket's path.
func (g descriptor) checkKind(role string) error {
	want, word := unix.SOCK_STREAM, "a stream socket (ListenStream=)"
	if role == Dgram {
		want, word = unix.SOCK_DGRAM, "a datagram socket (ListenDatagram=)"
	}
	kind, err := unix.GetsockoptInt(g.fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return fmt.Errorf("does not tell its type: %w", err)
	}
	if kind != want {
		return fmt.Errorf("is not %s", word)
	}
	// Not every system tells whether it listens; then accept will.
	listens, err := unix.GetsockoptInt(g.fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if role != Dgram && err == nil && listens == 0 {
		return errors.New("does not listen: a socket with Accept=yes cannot be used")
	}
	return nil
}

// samePath reports whether both name one file: by the same words, or in the same directory, as /run and /var/run are.
func samePath(a, b string) bool {
	if a == "" || b == "" || filepath.Base(a) != filepath.Base(b) {
		return false
	}
	da, _ := os.Stat(filepath.Dir(a))
	db, _ := os.Stat(filepath.Dir(b))
	return filepath.Clean(a) == filepath.Clean(b) || os.SameFile(da, db)
}
