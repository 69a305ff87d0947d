// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tempSuffix ends the name of everything that is about to take another name. With a dot in front of the name such a file is
// nobody else's, so what an interrupted run has left is removed by the next.
const tempSuffix = ".socket_vmnet2-new"

// tempName is the name next to path under which it is made.
func tempName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+tempSuffix)
}

// A disk is every change that is made to the file system. Nothing else in this package changes anything.
type disk struct {
	hook  func(op, path string) error // called in front of every change, which fails with its error; nil: none
	chunk int                         // how much is written at once, in bytes; 0: defaultChunk
}

// defaultChunk is how much is written at once: a program is some 15 MB.
const defaultChunk = 1 << 20

// before is called in front of every change.
func (d disk) before(op, path string) error {
	if d.hook == nil {
		return nil
	}
	if err := d.hook(op, path); err != nil {
		return &fs.PathError{Op: op, Path: path, Err: err}
	}
	return nil
}

// errSkip is what a hook returns to have a change left out: tests spare the disk that way.
var errSkip = errors.New("left out")

// change makes one change.
func (d disk) change(op, path string, do func() error) error {
	if err := d.before(op, path); errors.Is(err, errSkip) {
		return nil
	} else if err != nil {
		return err
	}
	return do()
}

// mkdir makes a directory that everybody can read and only its owner write to, whatever the umask.
func (d disk) mkdir(path string) error {
	if err := d.change("mkdir", path, func() error { return os.Mkdir(path, 0o755) }); err != nil {
		return err
	}
	return d.change("chmod", path, func() error { return os.Chmod(path, 0o755) })
}

// mkdirAll makes a directory and what is missing above it.
func (d disk) mkdirAll(path string) error {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		return nil
	}
	if err := d.mkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return d.mkdir(path)
}

// rename gives a file another name, for good.
func (d disk) rename(from, to string) error {
	if err := d.change("rename", to, func() error { return os.Rename(from, to) }); err != nil {
		return err
	}
	if err := d.syncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) != filepath.Dir(to) {
		return d.syncDir(filepath.Dir(from))
	}
	return nil
}

// syncDir makes the names in a directory last. Some file systems cannot, and have no need to.
func (d disk) syncDir(dir string) error {
	return d.change("sync", dir, func() error {
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
			return err
		}
		return nil
	})
}

// remove removes a file or an empty directory, and is content if there is none.
func (d disk) remove(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := d.change("remove", path, func() error { return os.Remove(path) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeAll removes a directory with all that is in it, the file names of last at last and in that order.
func (d disk) removeAll(path string, last ...string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !fi.IsDir() { // a link, too, wherever it leads
		return d.remove(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if indexOf(last, e.Name()) < 0 {
			if err := d.removeAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, name := range last {
		if err := d.remove(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return d.remove(path)
}

// write makes a file with these contents, at once as seen from outside, and lasting.
func (d disk) write(path string, b []byte, perm fs.FileMode) error {
	return d.create(path, perm, func(f *os.File) error { return d.put(f, b) })
}

// put writes to a file, in chunks.
func (d disk) put(f *os.File, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), cmp.Or(d.chunk, defaultChunk))
		if err := d.change("write", f.Name(), func() error { _, err := f.Write(b[:n]); return err }); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// create makes a file under another name, has fill write to it, and then gives it its name.
func (d disk) create(path string, perm fs.FileMode, fill func(*os.File) error) (err error) {
	temp := tempName(path)
	if err := d.remove(temp); err != nil {
		return err
	}
	var f *os.File
	if err := d.change("create", temp, func() (err error) {
		f, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
		return err
	}); err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			_ = d.remove(temp) // at a second fault the next run removes it
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	if err := d.giveToRoot(f); err != nil {
		return err
	}
	if err := d.change("chmod", temp, func() error { return f.Chmod(perm) }); err != nil {
		return err
	}
	if err := d.change("sync", temp, f.Sync); err != nil {
		return err
	}
	return d.rename(temp, path)
}

// copy makes to a copy of the file from, and fails unless its checksum is sum.
func (d disk) copy(from, to, sum string, perm fs.FileMode) error {
	return d.create(to, perm, func(f *os.File) error {
		src, err := os.Open(from)
		if err != nil {
			return err
		}
		defer src.Close()
		h := newSum()
		buf := make([]byte, cmp.Or(d.chunk, defaultChunk))
		for {
			n, err := io.ReadFull(src, buf)
			h.Write(buf[:n])
			if werr := d.put(f, buf[:n]); werr != nil {
				return werr
			}
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				break
			}
			if err != nil {
				return err
			}
		}
		if h.String() != sum {
			return errors.New(from + " was changed meanwhile; do it again when it is complete")
		}
		return nil
	})
}

// giveToRoot gives a new file to root and its group where this is root: a directory may hand its own group on.
func (d disk) giveToRoot(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return d.change("chown", f.Name(), func() error { return f.Chown(0, 0) })
}

// setTime sets the time of a file, a link or a directory.
func (d disk) setTime(path string, ns int64) error {
	return d.change("utimes", path, func() error {
		t := unix.NsecToTimespec(ns)
		err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil {
			return &fs.PathError{Op: "utimes", Path: path, Err: err}
		}
		return nil
	})
}

// mtime is the time of the last change in nanoseconds since 1970.
func mtime(fi fs.FileInfo) int64 { return fi.ModTime().Sub(time.Unix(0, 0)).Nanoseconds() }

func indexOf(list []string, s string) int {
	for i, l := range list {
		if l == s {
			return i
		}
	}
	return -1
}
