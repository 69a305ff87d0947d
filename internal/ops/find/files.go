// SPDX-License-Identifier: Apache-2.0

package find

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Limits on what is read. A Lima template with scripts is the largest of the files.
const (
	maxFile    = 256 << 10 // bytes
	maxEntries = 1000      // of a directory
	maxLinks   = 40        // on the way to a file, as the kernel's
)

// Resolve follows the links on the way to path as the staged system would, and returns a path below Root without any. os.Root
// refuses links that are absolute, which staged systems have.
func (s System) Resolve(path string) (string, error) {
	at, rest := "/", path
	for links := 0; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(at, name) // at is without links, so this is right for ".." as well
		fi, err := os.Lstat(filepath.Join(s.Root, next))
		if err == nil && fi.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		to, _ := os.Readlink(filepath.Join(s.Root, next))
		if links++; err == nil && links > maxLinks {
			err = syscall.ELOOP
		}
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = to + "/" + rest
	}
	return at, nil
}

// Real is path without links, as far as it exists.
func (s System) Real(path string) string {
	if at, err := s.Resolve(path); err == nil {
		return at
	}
	if dir, err := s.Resolve(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return filepath.Clean(path)
}

// Stat tells of the file that path leads to.
func (s System) Stat(path string) (fs.FileInfo, error) {
	at, err := s.Resolve(path)
	if err != nil {
		return nil, err
	}
	return os.Lstat(filepath.Join(s.Root, at))
}

// Owner is the user and the group that a file belongs to.
func Owner(fi fs.FileInfo) (uid, gid int) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1
	}
	return int(st.Uid), int(st.Gid)
}

// openAt opens what path leads to. It waits for nothing, and makes nothing ours: it may be a pipe or a terminal.
func (s System) openAt(path string, flags int) (*os.File, error) {
	at, err := s.Resolve(path)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(s.Root, at), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_NOFOLLOW|flags, 0)
}

// open opens the regular file that path leads to.
func (s System) open(path string) (*os.File, fs.FileInfo, error) {
	file, err := s.openAt(path, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("is no regular file but %s", fi.Mode().Type())
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, fi, nil
}

// ReadFile returns the content of a regular file of at most limit bytes.
func (s System) ReadFile(path string, limit int) ([]byte, error) {
	file, _, err := s.open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if len(b) > limit {
		return nil, fmt.Errorf("is larger than %d KiB, so it was not read", limit>>10)
	}
	return b, err
}

// readDir returns the names in a directory, sorted; with an error some, if there are too many.
func (s System) readDir(dir string) (names []string, err error) {
	d, err := s.openAt(dir, syscall.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err = d.Readdirnames(maxEntries + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(names) > maxEntries {
		names, err = names[:maxEntries], fmt.Errorf("has more than %d entries; only some were looked at", maxEntries)
	}
	slices.Sort(names)
	return names, err
}

// Absent tells that there is no such file.
func Absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// SamePath tells whether two paths are one on macOS, where /var, /etc and /tmp are links into /private.
func SamePath(a, b string) bool { return a != "" && public(a) == public(b) }

// public is path without the /private of macOS.
func public(path string) string {
	for _, dir := range []string{"/var/", "/etc/", "/tmp/"} {
		if rest, ok := strings.CutPrefix(path, "/private"); ok && strings.HasPrefix(rest, dir) {
			return rest
		}
	}
	return path
}
