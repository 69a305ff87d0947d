// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// A Pidfile tells others that the daemon is ready and which process it is. Lima takes a pidfile with a live process for
// "ready" and an empty one for an error, so it appears with its content or not at all:
//
//	AcquirePidfile   absent ─────────────────────► nothing there, nothing made
//	                 left by a dead process ─────► locked, content untouched
//	Publish          a locked temporary file that holds the pid takes the path
//	Release          removed, if it is still ours
//
// The lock is flock, held on the file itself for the daemon's life. A Pidfile is used by one goroutine at a time.
type Pidfile struct {
	at  hostfs.Place
	log *slog.Logger
	f   *os.File // locked; nil while there is no file at the path that is ours
	pid int      // 0 before Publish
}

// AcquirePidfile claims path. It fails with socket_vmnet's text if another daemon has it, if there is anything but a
// regular file, or if no file can be made there. The caller calls Release in the end, whether or not Publish was called.
func AcquirePidfile(path string, log *slog.Logger) (*Pidfile, error) {
	p := &Pidfile{at: hostfs.Place{Name: path}, log: log}
	f, err := p.at.Lock(0, func(n hostfs.Node) error {
		if n.Kind() != unix.S_IFREG {
			return unix.EINVAL
		}
		return nil
	})
	switch {
	case err == nil:
		p.f = f
	case path != "" && errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err == nil { // a directory that cannot be written is found out now, not when the network is up
		err = unix.Faccessat(unix.AT_FDCWD, filepath.Dir(path), unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		p.drop()
		return nil, p.openError(err)
	}
	return p, nil
}

// Publish makes the pidfile appear at its path with pid as content. It is called once the daemon serves.
func (p *Pidfile) Publish(pid int) error {
	tmp, err := p.temporary(pid)
	if err != nil {
		return p.openError(err)
	}
	if err := p.place(tmp); err != nil {
		_ = os.Remove(tmp.Name())
		_ = tmp.Close()
		return p.openError(err)
	}
	p.drop() // the old inode, which has no name any more
	p.f, p.pid = tmp, pid
	p.log.Info("created pidfile", "path", p.at.Name, "pid", pid)
	return nil
}

// Release removes the pidfile if it is still ours and gives up the lock. A failed start so leaves nothing, not even the file
// that a dead daemon had left. It may be called again.
func (p *Pidfile) Release() {
	if p.f == nil {
		return
	}
	defer p.drop()
	ours, err := p.at.Holds(p.f)
	if err == nil && ours {
		err = os.Remove(p.at.Name)
	}
	switch {
	case err != nil:
		LogError(p.log, newTextError(fmt.Sprintf("Failed to remove pidfile: %s", quoted(p.at.Name)), err))
	case ours && p.pid != 0:
		p.log.Info("removed pidfile", "path", p.at.Name, "pid", p.pid)
	}
}

// temporary makes a locked file beside the path that holds pid, readable by all as Lima needs it.
func (p *Pidfile) temporary(pid int) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(p.at.Name), ".socket_vmnet.pid-")
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(pid))
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// place gives tmp the path: by rename over the old file, whose lock we hold, or by link, which fails if another daemon was
// faster.
func (p *Pidfile) place(tmp *os.File) error {
	if p.f != nil {
		if ours, err := p.at.Holds(p.f); err != nil {
			return err
		} else if ours {
			return os.Rename(tmp.Name(), p.at.Name)
		}
	}
	err := os.Link(tmp.Name(), p.at.Name)
	switch {
	case errors.Is(err, fs.ErrExist):
		return unix.EAGAIN
	case err != nil:
		return err
	}
	return os.Remove(tmp.Name())
}

// drop closes the file that is held, and with it the lock.
func (p *Pidfile) drop() {
	if p.f != nil {
		_ = p.f.Close()
		p.f = nil
	}
}

// openError words err as socket_vmnet does.
func (p *Pidfile) openError(err error) error {
	te := newTextError("Failed to open pidfile: "+quoted(p.at.Name), err)
	if errors.Is(err, unix.EAGAIN) {
		return te.advise(process(p.holder()) + " has it: a daemon with this pidfile runs already")
	}
	return te.advise(advice(p.at.Name, err))
}

// holder is the process whose pidfile it is; 0 where the file does not tell.
func (p *Pidfile) holder() (pid int) {
	if f, err := p.at.Open(unix.O_RDONLY | unix.O_NONBLOCK); err == nil {
		_, _ = fmt.Fscan(io.LimitReader(f, 16), &pid)
		_ = f.Close()
	}
	return pid
}

// A SavedPidfile is a Pidfile on its way to the next image of the daemon.
type SavedPidfile struct {
	Path string `json:"path"`
	FD   int    `json:"fd"`  // -1: there is no file of ours
	PID  int    `json:"pid"` // 0: not published
}

// Save notes what the next image needs. The pidfile stays ours, and p as it is.
func (p *Pidfile) Save(o *handover.Out) SavedPidfile {
	s := SavedPidfile{Path: p.at.Name, FD: -1, PID: p.pid}
	if p.f != nil {
		s.FD = o.Conn(p.f)
	}
	return s
}

// RestorePidfile takes a pidfile over, with its lock and its content.
func RestorePidfile(in *handover.In, s SavedPidfile, log *slog.Logger) (*Pidfile, error) {
	p := &Pidfile{at: hostfs.Place{Name: s.Path}, log: log, pid: s.PID}
	if s.FD >= 0 {
		var err error
		if p.f, err = in.File(s.FD); err != nil {
			return nil, fmt.Errorf("take over the pidfile %s: %w", s.Path, err)
		}
	}
	return p, nil
}
