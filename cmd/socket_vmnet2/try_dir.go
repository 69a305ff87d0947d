// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
)

// What a run has in its directory. The lock is made first, held for life, and goes last.
const (
	tryLock   = "socket_vmnet2-try.lock"
	trySocket = "sock"
	tryState  = "state"
	trySubnet = "subnet"
)

// tryOwn is what a run leaves when it is killed, besides the lock. Clients' sockets are below sock.d.
var tryOwn = []string{trySocket, trySocket + ".lock", trySocket + ".d", tryState, trySubnet}

// tryMade is in the lock of a directory that a run has made itself, and that goes with it.
const tryMade = "made by socket_vmnet2 try"

// A tryDir is the directory of one run. All that is removed is removed through its descriptor, and no link is followed.
type tryDir struct {
	path string
	root *os.Root
	lock *os.File
	made bool // by us, or by a run that was killed here
}

// openTryDir makes the directory, or takes one that is empty or that a run which was killed has left.
func openTryDir(path string, mode fs.FileMode) (*tryDir, error) {
	for i := range 5 { // whoever has used it so far may be about to remove it
		time.Sleep(time.Duration(i) * tryPoll)
		err := makeDir(path, mode)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		d := &tryDir{path: path, made: err == nil}
		if err = d.open(); err == nil {
			return d, nil
		}
		if d.root != nil {
			_ = d.root.Close()
		}
		if d.made {
			_ = unix.Rmdir(path)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errTryAgain) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("another socket_vmnet2 try runs in %s", path)
}

func (d *tryDir) open() (err error) {
	if d.root, err = openOwn(d.path); err != nil {
		return err
	}
	names := namesIn(d.root)
	if !slices.Contains(names, tryLock) {
		if len(names) > 0 {
			return fmt.Errorf("%s is not empty, there is %q in it: name an empty directory, or one that does not exist yet", d.path, names[0])
		}
		return d.take(os.O_CREATE | os.O_EXCL)
	}
	for _, name := range names {
		if name != tryLock && !slices.Contains(tryOwn, name) {
			return fmt.Errorf("%s is not empty, there is %q in it, which is not from a run of socket_vmnet2 try: name another directory", d.path, name)
		}
	}
	if err := d.take(0); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(d.lock, int64(len(tryMade))))
	d.made = err == nil && string(text) == tryMade
	return d.clean()
}

// take locks the directory, and writes into a new lock who has made it.
func (d *tryDir) take(flags int) (err error) {
	if d.lock, err = takeLock(d.root, flags); err != nil {
		return err
	}
	if !isAt(d.root, d.path) {
		err = errTryAgain
	} else if d.made && flags != 0 {
		_, err = d.lock.WriteString(tryMade)
	}
	if err != nil {
		_ = d.lock.Close()
	}
	return err
}

// clean removes what a run has made, but for the lock.
func (d *tryDir) clean() error {
	var errs []error
	for _, name := range tryOwn {
		errs = append(errs, d.root.RemoveAll(name))
	}
	return errors.Join(errs...)
}

// Close removes what was made: everything, unless somebody has put something else into the directory.
func (d *tryDir) Close() error {
	err := errors.Join(d.clean(), d.root.Remove(tryLock))
	if d.made && isAt(d.root, d.path) {
		if rerr := unix.Rmdir(d.path); rerr != nil {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", d.path, rerr))
		}
	}
	return errors.Join(err, d.lock.Close(), d.root.Close())
}

// makeDir makes a directory with this mode whatever the umask. The error is fs.ErrExist if there is something.
func makeDir(path string, mode fs.FileMode) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if mode == 0o700 {
		return nil
	}
	root, err := openOwn(path)
	if err != nil {
		return err
	}
	return errors.Join(root.Chmod(".", mode), root.Close())
}

// openOwn opens a directory that is no link, belongs to us and is closed to others.
func openOwn(path string) (*os.Root, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link: name what it leads to", path)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory", path)
	case ownerOf(info) != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to user %d, not to us (user %d): name another directory", path, ownerOf(info), os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("others may write in %s: chmod go-w %s, or name another directory", path, shell.Quote(path))
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	opened, err := root.Stat(".")
	if err != nil || !os.SameFile(info, opened) { // somebody has changed it in between
		return nil, errors.Join(errTryAgain, err, root.Close())
	}
	return root, nil
}

// isAt reports whether root is still what is at path.
func isAt(root *os.Root, path string) bool {
	there, err := os.Lstat(path)
	if err != nil {
		return false
	}
	ours, err := root.Stat(".")
	return err == nil && os.SameFile(there, ours)
}

// lockIn takes the lock in a directory below root.
func lockIn(root *os.Root, name string) (*os.File, error) {
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	return takeLock(sub, 0)
}

// takeLock locks the lock in root and returns it. errTryAgain: another run has it, or is removing it.
func takeLock(root *os.Root, flags int) (*os.File, error) {
	f, err := root.OpenFile(tryLock, os.O_RDWR|flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errTryAgain
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular() || ownerOf(info) != os.Geteuid():
		err = fmt.Errorf("%s in %s is not from a run of socket_vmnet2 try: name another directory", tryLock, root.Name())
	default:
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
			err = errTryAgain
		}
	}
	if err == nil {
		there, serr := root.Lstat(tryLock)
		if serr != nil || !os.SameFile(there, info) {
			err = errTryAgain
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// namesIn are the names in root.
func namesIn(root *os.Root) []string {
	f, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	slices.SortFunc(names, strings.Compare)
	return names
}
