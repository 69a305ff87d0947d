// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
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
	path string
	log  *slog.Logger
	f    *os.File // locked; nil while there is no file at path that is ours
	pid  int      // 0 before Publish
}

// errPidfileMoved means that somebody else changed the path between two steps: look again.
var errPidfileMoved = errors.New("pidfile was replaced")

// pidfileTries bounds how often a path that changes under our eyes is looked at again.
const pidfileTries = 100

// AcquirePidfile claims path. It fails with socket_vmnet's text if another daemon has it, if there is anything but a
// regular file, or if no file can be made there. The caller calls Release in the end, whether or not Publish was called.
func AcquirePidfile(path string, log *slog.Logger) (*Pidfile, error) {
	p := &Pidfile{path: path, log: log}
	if err := p.acquire(); err != nil {
		return nil, p.openError(err)
	}
	// A directory that cannot be written is found out now, not when the network is up.
	tmp, err := p.temporary(0)
	if err == nil {
		err = errors.Join(os.Remove(tmp.Name()), tmp.Close())
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
	for range pidfileTries {
		if err = p.place(tmp); !errors.Is(err, errPidfileMoved) {
			break
		}
		p.drop()
		if err = p.acquire(); err != nil {
			break
		}
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		_ = tmp.Close()
		return p.openError(err)
	}
	p.drop() // the old inode, which has no name any more
	p.f, p.pid = tmp, pid
	p.log.Info("created pidfile", "path", p.path, "pid", pid)
	return nil
}

// Release removes the pidfile if it is still ours and gives up the lock. A failed start so leaves nothing, not even the file
// that a dead daemon had left. It may be called again.
func (p *Pidfile) Release() {
	if p.f == nil {
		return
	}
	defer p.drop()
	ours, err := isFileAt(p.f, p.path)
	if err == nil && ours {
		err = os.Remove(p.path)
	}
	switch {
	case err != nil:
		LogError(p.log, newTextError(fmt.Sprintf("Failed to remove pidfile: %s", quoted(p.path)), err))
	case ours && p.pid != 0:
		p.log.Info("removed pidfile", "path", p.path, "pid", p.pid)
	}
}

// acquire locks the file at path; p.f stays nil if there is none.
func (p *Pidfile) acquire() error {
	for range pidfileTries {
		f, err := openPidfile(p.path)
		if err != nil || f == nil {
			return err
		}
		if err := flock(f); err != nil {
			_ = f.Close()
			return err
		}
		ok, err := isFileAt(f, p.path)
		if err == nil && ok {
			p.f = f
			return nil
		}
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return syscall.EAGAIN
}

// openPidfile opens a regular file without changing it, and returns nil if there is nothing at path.
func openPidfile(path string) (*os.File, error) {
	fi, err := os.Lstat(path)
	switch {
	case path == "":
		return nil, syscall.ENOENT
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, syscall.ELOOP
	case fi.IsDir():
		return nil, syscall.EISDIR
	case !fi.Mode().IsRegular():
		return nil, syscall.EINVAL
	}
	// The path may have become a fifo or a link meanwhile: neither wait for it nor follow it.
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// temporary makes a locked file beside the path that holds pid, readable by all as Lima needs it.
func (p *Pidfile) temporary(pid int) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(p.path), ".socket_vmnet.pid-")
	if err != nil {
		return nil, err
	}
	err = flock(f)
	if err == nil && pid != 0 {
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
		ok, err := isFileAt(p.f, p.path)
		if err != nil {
			return err
		}
		if !ok {
			return errPidfileMoved
		}
		return os.Rename(tmp.Name(), p.path)
	}
	err := os.Link(tmp.Name(), p.path)
	if errors.Is(err, fs.ErrExist) {
		return errPidfileMoved
	}
	if err != nil {
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
	return newTextError("Failed to open pidfile: "+quoted(p.path), err)
}

// flock takes the exclusive lock of f without waiting. A lock that somebody else has is EAGAIN. It is the same lock that
// macOS's O_EXLOCK takes, so it keeps socket_vmnet out and is kept out by it.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// isFileAt reports whether path, with no link followed, is the file that f has open. It is asked after the lock was taken:
// its former owner may have removed or replaced the file between open and flock, and then the lock is worth nothing.
func isFileAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, there), nil
}
