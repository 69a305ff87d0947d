// SPDX-License-Identifier: Apache-2.0

// Package inherit takes what a service manager gives the daemon: listening sockets, so that no client is refused while the
// daemon restarts, and a place to report its state.
//
// systemd hands descriptors over from number 3 on and says so in LISTEN_PID and LISTEN_FDS; launchd hands them out by the key in the job's
// Sockets: stream, attach, adopt, dgram, control, or Listeners, which most jobs use. Which socket one is, its path says:
//
//	stream               SOCKET
//	attach adopt control SOCKET.d/attach and so on
//	dgram                SOCKET.d/dgram/sock, a datagram socket
//
// Descriptors whose names in LISTEN_FDNAMES begin with ClientName are those of clients, which a process before this one has stored.
//
// A daemon that runs as root heeds none of this unless its parent is process 1: sudo may pass a user's environment on.
package inherit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// The names of the sockets.
const (
	Stream  = "stream"
	Attach  = "attach"
	Adopt   = "adopt"
	Control = "control"
	Dgram   = "dgram"
)

// ClientName begins the names by which the descriptors of a client are stored: all of a client's have one name.
const ClientName = "client-"

// roles are the sockets that there are, in the order in which launchd is asked for them.
var roles = []string{Stream, Attach, Adopt, Dgram, Control}

// Options are what Take needs.
type Options struct {
	Socket string // SOCKET, an absolute path
	Dir    string // of the sockets beside it, an absolute path; empty: there are none
	Log    *slog.Logger
}

// activateSocket asks launchd for the sockets of this name. There are none where it has not started this process.
var activateSocket = func(string) ([]int, error) { return nil, nil }

// Given is what a service manager has given this process. The next image of the daemon gets it as JSON; the descriptors are handed over
// by what uses them.
type Given struct {
	Names []string `json:"names"` // of the sockets
	// Paths are those of the sockets, as the daemon names them and, where it differs, as the system tells those that are connected to them.
	Paths   []string `json:"paths"`
	Manager string   `json:"manager"` // Addr of the Notifier
	// Keeper is the parent that does what a service manager does, by Pair of the Notifier; it sets them and Stored.
	Keeper int `json:"keeper"`
	Pair   int `json:"pair"`

	// Stored are descriptors by their names, as Notifier.Store had them, unchecked.
	Stored map[string][]int `json:"stored,omitempty"`
	// Closing these leaves the paths alone, and what has not been accepted to the next process.
	Listeners map[string]*net.UnixListener `json:"-"`
	Datagram  *net.UnixConn                `json:"-"`
}

// Take takes the sockets that a service manager has given this process, and what it says of them out of the environment. Without
// a manager, or where it is not heeded, there are none. Each socket is checked: a unix socket of the right kind that listens
// at a path that the daemon would listen at. One that is not, or two sockets for one place, is an error that tells which; then the daemon
// ends, and a descriptor that was refused has not been closed: it may be anything.
func Take(o Options) (Given, error) {
	s := Given{Listeners: map[string]*net.UnixListener{}, Stored: map[string][]int{}, Manager: takeManager(o.Log)}
	given, err := fromSystemd(o)
	if err == nil && len(given) == 0 && this.heeds() {
		given, err = fromLaunchd()
	}
	for _, g := range given {
		switch {
		case strings.HasPrefix(g.name, ClientName):
			s.Stored[g.name] = append(s.Stored[g.name], g.fd)
		case err == nil:
			err = s.add(g, o)
		}
	}
	if err == nil && len(s.Names) > 0 {
		o.Log.Info("listening sockets were given by the service manager", "names", s.Names)
	}
	return s, err
}

// A descriptor is one that was given.
type descriptor struct {
	fd   int
	from string // how to name it in an error
	name string // that the manager has for it
}

// fromLaunchd asks launchd for each name.
func fromLaunchd() (list []descriptor, err error) {
	for _, name := range append(slices.Clone(roles), "Listeners") {
		fds, err := activateSocket(name)
		switch {
		case errors.Is(err, unix.ENOENT): // the job has none of this name
			continue
		case err != nil:
			return list, err
		}
		for _, fd := range fds {
			list = append(list, descriptor{fd: fd, from: fmt.Sprintf("launchd's socket %q", name)})
		}
	}
	return list, nil
}

// add checks g and keeps it. It takes g over unless there is an error.
func (s *Given) add(g descriptor, o Options) error {
	path, role, err := g.check(o)
	if err != nil {
		return fmt.Errorf("%s: %w", g.from, err)
	}
	want := o.path(role)
	if s.Has(role) {
		return fmt.Errorf("%s: a second socket for %s: give one", g.from, want)
	}
	f := os.NewFile(uintptr(g.fd), g.from)
	defer func() { _ = f.Close() }() // the listener has a duplicate
	if role == Dgram {
		s.Datagram, err = hostfs.Socket[*net.UnixConn](f)
	} else {
		s.Listeners[role], err = hostfs.Socket[*net.UnixListener](f)
	}
	if err != nil {
		return fmt.Errorf("%s: use the socket: %w", g.from, err)
	}
	s.Names = append(s.Names, role)
	if s.Paths = append(s.Paths, want); path != want {
		s.Paths = append(s.Paths, path)
	}
	return nil
}

// Has reports whether one of these sockets was given.
func (s *Given) Has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(s.Names, name) })
}

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
