// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

var errUntrusted = errors.New("others could change it")

// owner returns the user of a file.
func owner(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// trustDir returns dir without links, if nobody but euid and root can change it or what leads to it. It is made, with its parents,
// where it does not exist.
func trustDir(dir string, euid int) (string, error) {
	real, info, err := hostfs.Follow(dir, hostfs.FollowOptions{EUID: euid, Make: true})
	switch {
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", &fs.PathError{Op: "open", Path: real, Err: syscall.ENOTDIR}
	case info.Mode().Perm()&hostfs.OthersWrite(euid) != 0: // here the sticky bit is not enough
		return "", fmt.Errorf("use directory %s: mode %v: %w", real, info.Mode().Perm(), errUntrusted)
	}
	return real, nil
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
