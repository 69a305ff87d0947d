// SPDX-License-Identifier: Apache-2.0

// Package find tells what of socket_vmnet and socket_vmnet2 a machine has: the daemons that can be asked (Daemons, One), and the
// inventory of programs, jobs, networks of tools, processes and clients (Look), with the commands that move them (WriteText). It
// only reads, asks ps, launchctl and systemctl where they are, and connects to no socket but in Daemons and One.
//
// What is read belongs to others: what is unreadable, too large or not what it should be is noted and hinders nothing else.
package find

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// Why a Daemon cannot be asked anything. Errors of the system (fs.ErrPermission, syscall.ECONNREFUSED) tell the rest.
var (
	// ErrNothing is that nothing is at the path: no daemon serves it.
	ErrNothing = errors.New("there is no socket")
	// ErrStopped is that a socket is there and nothing listens: its daemon has ended.
	ErrStopped = errors.New("nothing listens any more")
	// ErrOld is that socket_vmnet serves it, which answers no questions.
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
	Err     error  // why it cannot be asked anything
}

// rootSuffix is of the control socket for root and the daemon's user, beside the one for all.
const rootSuffix = ".root"

// ControlOf is the path of a daemon's control socket. runtimeDir is the one that its command line names, if any.
func ControlOf(socket, runtimeDir string) string {
	return filepath.Join(cmp.Or(runtimeDir, socket+".d"), "control")
}

// Daemons are those that run, by socket. One that cannot be asked has an Err: it is another user's, or socket_vmnet.
//
// A socket without a control socket beside it and without a process that serves it is left alone: connecting could make a
// service manager start its daemon.
func Daemons(s System) (all []Daemon) {
	servers := s.servers()
	sockets := s.Controlled()
	for _, p := range servers {
		sockets = append(sockets, p.Socket)
	}
	seen := map[string]bool{}
	for _, socket := range sockets {
		if path := s.Real(socket); !seen[path] {
			seen[path] = true
			if d := s.daemon(socket, servers); d.PID != 0 || d.Control != "" {
				all = append(all, d)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Daemon) int { return cmp.Compare(a.Socket, b.Socket) })
	return all
}

// One is the daemon at socket, which may also be a directory that was given with --runtime-dir.
func One(s System, socket string) Daemon {
	fi, err := s.Stat(socket)
	if err != nil || !fi.IsDir() {
		d := Daemon{Socket: socket, Control: ControlOf(socket, "")}
		if s.connectControl(d.Control) == nil {
			return d // as nearly always, and without a look at all processes
		}
		return s.daemon(socket, s.servers())
	}
	control := ControlOf("", socket)
	return Daemon{Control: control, Err: why(s.connectControl(control))}
}

// why is what an error of connecting means.
func why(err error) error {
	switch {
	case Absent(err):
		return ErrNothing
	case errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOTSOCK):
		return ErrStopped
	}
	return err
}

// servers are the daemons among the processes whose sockets are known. Where processes cannot be listed, there are none.
func (s System) servers() []Server {
	if s.Processes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), processesTime)
	defer cancel()
	list, _ := s.Processes(ctx)
	return slices.DeleteFunc(serversIn(list), func(p Server) bool { return p.Socket == "" })
}

// daemon is the one at a stream socket.
func (s System) daemon(socket string, servers []Server) Daemon {
	d := Daemon{Socket: socket, Control: ControlOf(socket, "")}
	path := s.Real(socket)
	i := slices.IndexFunc(servers, func(p Server) bool { return s.Real(p.Socket) == path })
	if i >= 0 {
		p := servers[i]
		d.PID, d.Program, d.Control = p.PID, p.Program, ControlOf(socket, p.RuntimeDir)
	}
	d.Err = s.connectControl(d.Control)
	if d.Err == nil || errors.Is(d.Err, fs.ErrPermission) {
		return d
	}
	switch d.Err = why(s.connect(socket)); {
	case d.Err != nil:
	case i < 0 && s.wait(d.Control): // a service manager has started it now
		return d
	default:
		// It is socket_vmnet2 all the same by its name, or its lock.
		if _, err := s.Stat(socket + ".lock"); err == nil || d.PID != 0 && compat.PersonalityOf(d.Program) == compat.New {
			d.Err = ErrNoControl
		} else {
			d.Err = ErrOld
		}
	}
	d.Control = ""
	return d
}

// connectControl tells whether a control socket answers: first the one that only root and the daemon's user can use, which other
// users cannot fill.
func (s System) connectControl(path string) error {
	if s.connect(path+rootSuffix) == nil {
		return nil
	}
	return s.connect(path)
}

// connect tells whether something listens on a stream socket.
func (s System) connect(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	c, err := s.Dial(ctx, "unix", filepath.Join(s.Root, path))
	if errors.Is(err, syscall.EAGAIN) {
		return nil // its queue is full, so something listens
	}
	if err != nil {
		return err
	}
	return c.Close()
}

// wait is connect with patience for a daemon that is being started.
func (s System) wait(path string) bool {
	for until := time.Now().Add(startTime); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if s.connect(path) == nil {
			return true
		}
	}
	return false
}
