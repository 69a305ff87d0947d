// SPDX-License-Identifier: Apache-2.0

// Package inherit takes what a service manager gives the daemon: listening sockets, so that no client is refused while the
// daemon restarts, and a place to report its state.
//
// systemd hands descriptors over from number 3 on and says so in LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES; launchd hands them
// out by the key in the job's Sockets. The names:
//
//	stream               SOCKET
//	attach adopt control SOCKET.d/attach and so on
//	dgram                SOCKET.d/dgram/sock, a datagram socket
//	x.socket unknown Listeners, or none: which one it is, its path says
//
// x.socket is what systemd calls the sockets of a unit without FileDescriptorName=, unknown those without LISTEN_FDNAMES, and
// Listeners is what most launchd jobs use.
//
// A daemon that runs as root heeds none of this unless its parent is process 1: sudo may pass a user's environment on.
package inherit

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"

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

// roles are the sockets that there are, in the order in which launchd is asked for them.
var roles = []string{Stream, Attach, Adopt, Dgram, Control}

// Options are what Take needs.
type Options struct {
	Socket string // SOCKET, an absolute path
	Dir    string // of the sockets beside it, an absolute path; empty: there are none
	Log    *slog.Logger

	process  process
	activate func(name string) ([]int, error)
}

// activateSocket asks launchd for the sockets of this name. There are none where it has not started this process.
var activateSocket = func(string) ([]int, error) { return nil, nil }

// Sockets are those that were given, until they are taken. A nil one has none. It is used by one goroutine.
type Sockets struct {
	saved   Saved
	streams map[string]*net.UnixListener
	dgram   *net.UnixConn
}

// Saved tells the next image of the daemon which sockets were given to this one. Their descriptors are handed over by those that
// have taken them.
type Saved struct {
	Names []string `json:"names"`
	Paths []string `json:"paths"`
}

// Take takes the sockets that a service manager has given this process, and what it says of them out of the environment. Without
// a manager, or where it is not heeded, there are none. Each socket is checked: a unix socket of the right kind that listens
// at the path that the daemon would listen at. One that is not, a name that means nothing here, or two sockets for one place
// is an error that tells which; then the daemon ends, and no descriptor has been closed: it may be anything.
func Take(o Options) (*Sockets, error) {
	if o.activate == nil {
		o.process, o.activate = thisProcess(), activateSocket
	}
	given, err := fromSystemd(o)
	if err == nil && len(given) == 0 && o.process.heeds() {
		given, err = fromLaunchd(o)
	}
	s := &Sockets{streams: map[string]*net.UnixListener{}}
	for _, g := range given {
		if err == nil {
			err = s.add(g, o)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if len(s.saved.Names) > 0 {
		o.Log.Info("listening sockets were given by the service manager", "names", s.saved.Names)
	}
	return s, nil
}

// A descriptor is one that was given.
type descriptor struct {
	fd   int
	name string
	from string // how to name it in an error
}

// fromLaunchd asks launchd for each name.
func fromLaunchd(o Options) (list []descriptor, err error) {
	for _, name := range append(slices.Clone(roles), "Listeners") {
		fds, err := o.activate(name)
		switch {
		case errors.Is(err, unix.ENOENT): // the job has none of this name
			continue
		case err != nil:
			return list, err
		}
		for _, fd := range fds {
			list = append(list, descriptor{fd: fd, name: name, from: fmt.Sprintf("launchd's socket %q", name)})
		}
	}
	return list, nil
}

// add checks g and keeps it. It takes g over unless there is an error.
func (s *Sockets) add(g descriptor, o Options) error {
	role, err := g.check(o)
	if err != nil {
		return fmt.Errorf("%s: %w", g.from, err)
	}
	if s.Has(role) {
		return fmt.Errorf("%s: a second socket for %s: give one", g.from, o.path(role))
	}
	f := os.NewFile(uintptr(g.fd), g.from)
	defer func() { _ = f.Close() }() // the listener has a duplicate
	if role == Dgram {
		s.dgram, err = hostfs.Datagram(f)
	} else {
		s.streams[role], err = hostfs.Listener(f)
	}
	if err != nil {
		return fmt.Errorf("%s: use the socket: %w", g.from, err)
	}
	s.saved.Names = append(s.saved.Names, role)
	s.saved.Paths = append(s.saved.Paths, o.path(role))
	if told, err := boundPath(g.fd); err == nil && told != o.path(role) {
		s.saved.Paths = append(s.saved.Paths, told)
	}
	return nil
}

// Has reports whether the socket of this name was given.
func (s *Sockets) Has(name string) bool { return s != nil && slices.Contains(s.saved.Names, name) }

// Any reports whether one of these was given.
func (s *Sockets) Any(names ...string) bool { return slices.ContainsFunc(names, s.Has) }

// Listener hands over the listener of this name, once; nil if there is none. Its Close leaves the path alone. What has not been
// accepted when it is closed is left to the next process.
func (s *Sockets) Listener(name string) *net.UnixListener {
	if s == nil {
		return nil
	}
	l := s.streams[name]
	delete(s.streams, name)
	return l
}

// Datagram hands over the datagram socket, once; nil if there is none. Its Close leaves the path alone.
func (s *Sockets) Datagram() *net.UnixConn {
	if s == nil {
		return nil
	}
	c := s.dgram
	s.dgram = nil
	return c
}

// Paths are the paths of all that were given, as the daemon names them and, where it differs, as the system tells those that are
// connected to them.
func (s *Sockets) Paths() []string { return s.Save().Paths }

// Save is what Restore takes. It may be called on nil.
func (s *Sockets) Save() Saved {
	if s == nil {
		return Saved{}
	}
	return s.saved
}

// Restore knows the sockets that were given to the image before: Has and Paths tell of them. They are handed over by what has them.
func Restore(v Saved) *Sockets { return &Sockets{saved: v} }

// Close closes those that were not taken. It may be called on nil.
func (s *Sockets) Close() {
	if s == nil {
		return
	}
	for _, l := range s.streams {
		_ = l.Close()
	}
	clear(s.streams)
	if s.dgram != nil {
		_ = s.dgram.Close()
		s.dgram = nil
	}
}
