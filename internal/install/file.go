// SPDX-License-Identifier: Apache-2.0

package install

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The kinds of what may be at a path.
const (
	absent  = "absent"
	regular = "file"
	symlink = "symlink"
)

// A file is what is, or was, at a path.
type file struct {
	Kind   string      `json:"kind"`
	Sum    string      `json:"sha256,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"` // permissions, with the bits for set-user-id and the like
	UID    int         `json:"uid"`
	GID    int         `json:"gid"`
	Time   int64       `json:"mtime,omitempty"` // nanoseconds since 1970
	Target string      `json:"target,omitempty"`

	own bool // a program of this project, of any version; not on record
}

// modeBits are what chmod sets.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// look tells what is at a path. Anything but a file and a symbolic link is an error.
func look(path string) (file, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file{Kind: absent}, nil
	}
	if err != nil {
		return file{}, err
	}
	f := file{Mode: fi.Mode() & modeBits, Time: mtime(fi)}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		f.UID, f.GID = int(st.Uid), int(st.Gid)
	}
	switch fi.Mode().Type() {
	case 0:
		f.Kind = regular
		f.own = isOwn(path)
		f.Sum, err = sumOf(path)
	case fs.ModeSymlink:
		f.Kind, f.Mode = symlink, 0
		f.Target, err = os.Readlink(path)
	case fs.ModeDir:
		err = fmt.Errorf("%s is a directory where a program belongs; move it away", path)
	default:
		err = fmt.Errorf("%s is neither a file nor a link (%v) where a program belongs; move it away", path, fi.Mode().Type())
	}
	return f, err
}

// same reports whether the contents are the same, whoever they belong to.
func (f file) same(g file) bool { return f.Kind == g.Kind && f.Sum == g.Sum && f.Target == g.Target }

// equal reports whether they are the same in every respect.
func (f file) equal(g file) bool {
	f.own, g.own = false, false
	return f == g
}

// isOwn reports whether a file is a program of this project: Go records in a program what it was built from.
func isOwn(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && strings.HasPrefix(info.Path, "github.com/socket-vmnet2/socket_vmnet2/")
}

// A sum is a checksum in the making.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) String() string { return hex.EncodeToString(s.Sum(nil)) }

// sumOf is the checksum of a file.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := newSum()
	if _, err := io.Copy(s, f); err != nil {
		return "", err
	}
	return s.String(), nil
}

// duplicate makes at to what is at from, which is f: the same file under a second name, so that everything about it stays, or
// where the file system has no such thing a copy with the same contents, mode, owner and time.
func (d disk) duplicate(from, to string, f file) error {
	temp := tempName(to)
	if err := d.remove(temp); err != nil {
		return err
	}
	if f.Kind == symlink {
		if err := d.change("symlink", temp, func() error { return os.Symlink(f.Target, temp) }); err != nil {
			return err
		}
		if err := d.attributes(temp, f); err != nil {
			return err
		}
		return d.replace(temp, to)
	}
	if err := d.change("link", temp, func() error { return os.Link(from, temp) }); err == nil {
		return d.replace(temp, to)
	}
	if err := d.copy(from, temp, f.Sum, 0o600); err != nil {
		return err
	}
	if err := d.attributes(temp, f); err != nil {
		return err
	}
	return d.replace(temp, to)
}

// replace is rename; two names of one file would both stay.
func (d disk) replace(temp, to string) error {
	if err := d.rename(temp, to); err != nil {
		return err
	}
	return d.remove(temp)
}

// attributes gives a file or link its owner, mode and time, the owner first, since that takes mode bits away.
func (d disk) attributes(path string, f file) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != f.UID || int(st.Gid) != f.GID) {
		if err := d.change("chown", path, func() error { return os.Lchown(path, f.UID, f.GID) }); err != nil {
			return err
		}
	}
	if f.Kind == regular {
		if err := d.change("chmod", path, func() error { return os.Chmod(path, f.Mode) }); err != nil {
			return err
		}
	}
	return d.setTime(path, f.Time)
}

// emptyOf reports whether a directory has nothing but these names.
func emptyOf(dir string, but ...string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if indexOf(but, e.Name()) < 0 {
			return false, nil
		}
	}
	return true, nil
}

// below is a path in a directory, for texts without the staged root.
func below(root, path string) string {
	if root == "" {
		return path
	}
	if rel, err := filepath.Rel(root, path); err == nil {
		return "/" + rel
	}
	return path
}
