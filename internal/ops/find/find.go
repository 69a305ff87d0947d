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

// A Daemon is one that runs, that did or will, or that was asked for.
type Daemon struct {
	Socket  string   // path of the stream socket, absolute; empty if only the runtime directory is known
	Control string   // path of the control socket; empty: it has none
	By      []string // what names the socket
	PID     int      // 0: not known, nor is the rest of the process
	UID     int
	Program string // as it was called
	Ours    bool   // it is socket_vmnet2
	Err     error  // why it cannot be asked anything, of Daemons and One
}

// rootSuffix is of the control socket for root and the daemon's user, beside the one for all.
const rootSuffix = ".root"

// controlOf is the path of a daemon's control socket. runtimeDir is the one that its command line names, if any.
func controlOf(socket, runtimeDir string) string {
	return filepath.Join(cmp.Or(runtimeDir, socket+".d"), "control")
}

// Daemons are those that run, by socket. One that cannot be asked has an Err: it is another user's, or socket_vmnet.
//
// A socket without a control socket beside it and without a process that serves it is left alone: connecting could make a
// service manager start its daemon.
func Daemons(s System) (all []Daemon) {
	for _, k := range s.running().Daemons(s) {
		if d := s.probe(k); d.PID != 0 || d.Control != "" {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b Daemon) int { return cmp.Compare(a.Socket, b.Socket) })
	return all
}

// One is the daemon at socket, which may also be a directory that was given with --runtime-dir.
func One(s System, socket string) (d Daemon) {
	if fi, err := s.Stat(socket); err == nil && fi.IsDir() {
		control := controlOf("", socket)
		return Daemon{Control: control, Err: why(s.connectControl(control))}
	}
	if d = (Daemon{Socket: socket, Control: controlOf(socket, "")}); s.connectControl(d.Control) == nil {
		return d // as nearly always, and without a look at all processes
	}
	for _, k := range s.running().Daemons(s, socket) {
		if s.Same(k.Socket, socket) {
			d = s.probe(k)
			d.Socket = socket
		}
	}
	return d
}

// running is an inventory of what runs. Where processes cannot be listed, nothing does.
func (s System) running() *Inventory {
	ctx, cancel := context.WithTimeout(context.Background(), processesTime)
	defer cancel()
	f := newSearch(ctx, s)
	f.findProcesses()
	return f.Inventory
}

// maxSockets bounds how many sockets are looked at: any user can make some in /tmp.
const maxSockets = 256

// Daemons are, by their sockets and each once, those of the processes, jobs and networks, those that are named, and those at the usual places
// that have a control socket. Of a runtime directory that is named only the control socket is known.
func (v *Inventory) Daemons(s System, named ...string) (all []*Daemon) {
	add := func(path, runtimeDir string) *Daemon {
		if !filepath.IsAbs(path) || len(all) >= maxSockets {
			return &Daemon{}
		}
		i := slices.IndexFunc(all, func(d *Daemon) bool { return s.Same(d.Socket, path) })
		if i < 0 {
			i = len(all)
			all = append(all, &Daemon{Socket: filepath.Clean(path), Control: controlOf(filepath.Clean(path), runtimeDir)})
		}
		return all[i]
	}
	for i, c := range v.Setups() {
		d := add(c.Socket, c.RuntimeDir)
		d.By = append(d.By, c.By)
		if i < len(v.Servers) {
			d.PID, d.UID, d.Program, d.Ours = v.Servers[i].PID, v.Servers[i].UID, c.Program, v.Servers[i].Ours
		}
	}
	for _, path := range named {
		dir := ""
		if fi, err := s.Stat(path); err == nil && fi.IsDir() {
			dir = path
		}
		add(path, dir)
	}
	for _, path := range s.controlled() {
		add(path, "")
	}
	return all
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

// probe finds out whether a daemon can be asked something.
func (s System) probe(known *Daemon) Daemon {
	d := *known
	d.Err = s.connectControl(d.Control)
	if d.Err == nil || errors.Is(d.Err, fs.ErrPermission) {
		return d
	}
	switch d.Err = why(s.connect(d.Socket)); {
	case d.Err != nil:
	case d.PID == 0 && s.wait(d.Control): // a service manager has started it now
		return d
	default:
		// It is socket_vmnet2 all the same by its name, or its lock.
		if _, err := s.Stat(d.Socket + ".lock"); err == nil || d.PID != 0 && compat.PersonalityOf(d.Program) == compat.New {
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
