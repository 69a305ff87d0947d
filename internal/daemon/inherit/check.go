// SPDX-License-Identifier: Apache-2.0

package inherit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// role is what a name stands for.
func (g descriptor) role() (string, error) {
	switch {
	case slices.Contains(roles, g.name):
		return g.name, nil
	case g.name == "", g.name == "unknown", g.name == "Listeners", strings.HasSuffix(g.name, ".socket"):
		return byPath, nil
	}
	return "", fmt.Errorf("the name means nothing here: use one of %s, or none", strings.Join(roles, ", "))
}

// check tells which socket g is, and whether it can be that.
func (g descriptor) check(o Options) (string, error) {
	role, err := g.role()
	if err != nil {
		return "", err
	}
	path, err := boundPath(g.fd)
	if err != nil {
		return "", err
	}
	if role == byPath {
		for _, r := range roles {
			if samePath(path, o.path(r)) {
				role = r
			}
		}
		if role == byPath {
			return "", fmt.Errorf("it listens at %s, which is neither SOCKET (%s) nor a socket beside it", path, o.Socket)
		}
	}
	want := o.path(role)
	if want == "" {
		return "", errors.New("there are no sockets beside SOCKET, --runtime-dir=none says so")
	}
	if !samePath(path, want) {
		return "", fmt.Errorf("it listens at %s, and %s is expected at %s", path, role, want)
	}
	if err := g.checkKind(role); err != nil {
		return "", fmt.Errorf("the socket at %s %w", path, err)
	}
	if info, err := os.Lstat(want); err != nil || info.Mode()&os.ModeSocket == 0 {
		o.Log.Warn("nobody can connect to a socket that was given: its path is gone; restart the socket's unit or job", "path", want)
	}
	return role, nil
}

// boundPath is the path that a unix socket is bound to.
func boundPath(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", fmt.Errorf("look at it: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return "", errors.New("it is no socket")
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return "", fmt.Errorf("ask for its address: %w", err)
	}
	ua, ok := sa.(*unix.SockaddrUnix)
	if !ok {
		return "", errors.New("it is no unix socket")
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
	if role == Dgram {
		return nil
	}
	listens, err := unix.GetsockoptInt(g.fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if errors.Is(err, unix.ENOPROTOOPT) { // not every system tells; then accept will
		return nil
	}
	if err != nil {
		return fmt.Errorf("does not tell whether it listens: %w", err)
	}
	if listens == 0 {
		return errors.New("does not listen: a socket with Accept=yes cannot be used")
	}
	return nil
}

// samePath reports whether both name one file: by the same words, or in the same directory, as /run and /var/run are.
func samePath(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	a, b = filepath.Clean(a), filepath.Clean(b)
	if a == b {
		return true
	}
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	da, err := os.Stat(filepath.Dir(a))
	if err != nil {
		return false
	}
	db, err := os.Stat(filepath.Dir(b))
	return err == nil && os.SameFile(da, db)
}
