// SPDX-License-Identifier: Apache-2.0

// Package find looks for the daemons that run on this machine: sockets at the usual places, and processes named socket_vmnet.
package find

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// Why a Daemon cannot be asked anything. Errors of the system (fs.ErrPermission, syscall.ECONNREFUSED) tell the rest.
var (
	// ErrNothing is that nothing is at the path: no daemon serves it.
	ErrNothing = errors.New("there is no socket")
	// ErrStopped is that a socket is there, and nobody listens: its daemon has ended.
	ErrStopped = errors.New("nobody listens any more")
	// ErrOld is that socket_vmnet serves it, which can be asked nothing.
	ErrOld = errors.New("socket_vmnet serves it, which cannot be asked anything")
	// ErrNoControl is that the daemon was started without a control socket, or could not make one.
	ErrNoControl = errors.New("the daemon has no control socket")
)

// A Daemon is one that runs, or that was asked for.
type Daemon struct {
	Socket  string // path of the stream socket, absolute; empty if only the runtime directory is known
	Control string // path of the control socket; empty: it has none
	PID     int    // 0: not known
	Program string // as it was called, if PID is known
	Old     bool   // it is socket_vmnet, which has no control socket
	Err     error  // why it cannot be asked anything
}

// A System is where to look. Machine is the real one.
type System interface {
	// Sockets are the paths of sockets at the usual places, and the patterns of these places.
	Sockets() (found, looked []string)
	// Mode is the type of a file, links followed.
	Mode(path string) (fs.FileMode, error)
	// Real is the path without links, as far as it exists.
	Real(path string) string
	// Connect tells whether somebody listens on a stream socket.
	Connect(path string) error
	// Wait is Connect with some patience.
	Wait(path string) bool
	Processes() ([]Process, error)
}

// Daemons are those that run, by socket. One that cannot be asked has an Err: somebody else's, or socket_vmnet.
//
// A socket without a control socket beside it, and without a process whose it is, is left alone: to connect could have a
// service manager start its daemon.
func Daemons(s System) []Daemon {
	processes := daemonsOf(s)
	found, _ := s.Sockets()
	var all []Daemon
	seen := map[string]bool{}
	add := func(socket string) {
		path := s.Real(socket)
		if seen[path] {
			return
		}
		seen[path] = true
		if d := one(s, socket, processes); d.PID != 0 || d.Control != "" {
			all = append(all, d)
		}
	}
	for _, socket := range found {
		if _, ok := serving(s, socket, processes); ok {
			add(socket)
		} else if _, err := s.Mode(socket + runtimeSuffix + controlName); err == nil || errors.Is(err, fs.ErrPermission) {
			add(socket)
		}
	}
	for _, p := range processes {
		add(p.socket)
	}
	slices.SortStableFunc(all, func(a, b Daemon) int { return strings.Compare(a.Socket, b.Socket) })
	return all
}

// Looked is where Daemons looks, for the one who wonders why it finds none.
func Looked(s System) []string {
	_, looked := s.Sockets()
	return looked
}

// One is the daemon at socket, which may also be a directory that was given with --runtime-dir.
func One(s System, socket string) Daemon {
	if mode, err := s.Mode(socket); err == nil && mode.IsDir() {
		d := Daemon{Control: filepath.Join(socket, controlName)}
		switch d.Err = connectControl(s, d.Control); {
		case errors.Is(d.Err, fs.ErrNotExist):
			d.Err = ErrNothing
		case errors.Is(d.Err, syscall.ECONNREFUSED) || errors.Is(d.Err, syscall.ENOTSOCK):
			d.Err = ErrStopped
		}
		return d
	}
	return one(s, socket, daemonsOf(s))
}

// Where the control socket is, without --runtime-dir, and the one for root and the daemon's user beside it.
const (
	runtimeSuffix = ".d/"
	controlName   = "control"
	rootSuffix    = ".root"
)

// connectControl tells whether a control socket answers: for those who may use it the one that others cannot crowd.
func connectControl(s System, path string) error {
	if s.Connect(path+rootSuffix) == nil {
		return nil
	}
	return s.Connect(path)
}

// serving is the process that serves a socket.
func serving(s System, socket string, processes []server) (server, bool) {
	path := s.Real(socket)
	i := slices.IndexFunc(processes, func(p server) bool { return s.Real(p.socket) == path })
	if i < 0 {
		return server{}, false
	}
	return processes[i], true
}

// one is the daemon at a stream socket.
func one(s System, socket string, processes []server) Daemon {
	d := Daemon{Socket: socket, Control: socket + runtimeSuffix + controlName}
	p, known := serving(s, socket, processes)
	if known {
		d.PID, d.Program = p.PID, p.Args[0]
		if p.runtimeDir != "" {
			d.Control = filepath.Join(p.runtimeDir, controlName)
		}
	}
	d.Err = connectControl(s, d.Control)
	if d.Err == nil || errors.Is(d.Err, fs.ErrPermission) {
		return d
	}
	switch err := s.Connect(socket); {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		d.Err = ErrNothing
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTSOCK):
		d.Err = ErrStopped
	case err != nil:
		d.Err = err
	case !known && s.Wait(d.Control): // a service manager has started it now
		d.Err = nil
		return d
	case isOurs(s, d):
		d.Err = ErrNoControl
	default:
		d.Err, d.Old = ErrOld, true
	}
	d.Control = ""
	return d
}

// isOurs tells whether a daemon without a control socket is socket_vmnet2 all the same: by its name, or its lock.
func isOurs(s System, d Daemon) bool {
	if d.PID != 0 && compat.PersonalityOf(d.Program) == compat.New {
		return true
	}
	_, err := s.Mode(d.Socket + ".lock")
	return err == nil
}
