// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links in a path, as the kernels do.
const maxLinks = 40

var errUntrusted = errors.New("others could change it")

// owner returns the user of a file.
func owner(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// trustPath checks that nobody but euid and root can change what dir leads to: every directory on the way, and whatever
// symbolic links lead there. It returns the path without links. Where dir does not exist it is made, mode 0700, with its
// parents.
//
// In a directory with the sticky bit, such as /tmp, others can add names but not replace those of root or euid, so what
// exists there and belongs to one of them is as good as anywhere else.
func trustPath(dir string, euid int) (string, error) {
	todo := strings.Split(strings.TrimPrefix(filepath.Clean(dir), "/"), "/")
	at := "/"
	links := 0
	if err := trustDir(at, euid); err != nil {
		return "", err
	}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			if err = os.Mkdir(next, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
				info, err = os.Lstat(next)
			}
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "open", Path: dir, Err: syscall.ELOOP}
			}
			target, err := readTrustedLink(next, info, euid)
			if err != nil {
				return "", err
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			todo = append(strings.Split(target, "/"), todo...)
			continue
		}
		if err := trustDir(next, euid); err != nil {
			return "", err
		}
		at = next
	}
	return at, nil
}

func readTrustedLink(path string, info fs.FileInfo, euid int) (string, error) {
	if uid, ok := owner(info); !ok || uid != 0 && uid != euid {
		return "", fmt.Errorf("follow link %s: it belongs to user %d: %w", path, uid, errUntrusted)
	}
	return os.Readlink(path)
}

// othersWrite are the permissions that let somebody else write. Many systems give each user a group of its own and let it
// write, so the group counts for root only.
func othersWrite(euid int) fs.FileMode {
	if euid == 0 {
		return 0o022
	}
	return 0o002
}

// trustDir checks one directory: owned by root or euid, and not writable by others, but for the sticky bit.
func trustDir(path string, euid int) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	uid, ok := owner(info)
	if !ok || uid != 0 && uid != euid {
		return fmt.Errorf("use directory %s: it belongs to user %d: %w", path, uid, errUntrusted)
	}
	if info.Mode().Perm()&othersWrite(euid) != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("use directory %s: mode %v: %w", path, info.Mode().Perm(), errUntrusted)
	}
	return nil
}

// trustFinal checks the directory of the files itself: there, the sticky bit is not enough.
func trustFinal(path string, euid int) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&othersWrite(euid) != 0 {
		return fmt.Errorf("use directory %s: mode %v: %w", path, info.Mode().Perm(), errUntrusted)
	}
	return nil
}

// readTrusted reads a regular file that belongs to euid and that nobody else can write. No link is followed, and nothing
// that opening or reading could hang on is waited for.
func readTrusted(path string, euid int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	uid, ok := owner(info)
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read %s: not a regular file", path)
	case !ok || uid != euid:
		return nil, fmt.Errorf("read %s: it belongs to user %d: %w", path, uid, errUntrusted)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("read %s: mode %v: %w", path, info.Mode().Perm(), errUntrusted)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// replace writes b to path, all of it or nothing: a temporary file beside it, then renamed. It is not flushed to the disk:
// that took up to 1.6 s on a busy one, a stop of the daemon has two seconds, and a crash of the machine ends the guests too.
func replace(path string, b []byte) (err error) {
	tmp := path + ".tmp"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(tmp)
		}
	}()
	if err := f.Chmod(0o600); err != nil { // whatever the umask is
		return err
	}
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
