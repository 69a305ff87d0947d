// SPDX-License-Identifier: Apache-2.0

// Package hostfs tells whether others can change what a path leads to: others than root and this user (Follow), or, for what sudo or
// launchd runs as root, others than root (Check). Files, locks and sockets that are made beside those of others are made at a Place, and a
// Peer is who is at the other end of a socket.
package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links in a path, as the kernels do.
const maxLinks = 40

// An Untrusted is a component of a path that others can change.
type Untrusted struct {
	Path string // of the component, without links before it
	Text string // names it, and what to do
}

// Error implements error.
func (u *Untrusted) Error() string { return u.Text }

// Follow goes along an absolute path, and returns it without links, with what is there. An *Untrusted says what others can change.
//
// Every component from the root on, and every link, must belong to root or to the user. None may be writable by others. For root that
// includes the group, as sudo has it for its own files and Lima for what sudo may run; a user's group counts as the user, since many
// systems give each user one of its own, and Homebrew's directories belong to a group. A directory with the sticky bit, such as /tmp, may
// be writable on the way, since no other user can replace what is root's or the user's there, but only a directory in it counts, not a link or
// a file, which others could have put there first.
func Follow(path string, euid int) (real string, info fs.FileInfo, err error) {
	w := &walk{euid: euid}
	err = w.along(path)
	return w.at, w.info, err
}

// PrivateDir is Follow for a directory that only the user can write in. It is made, with its parents, where it does not exist.
func PrivateDir(path string, euid int) (real string, err error) {
	w := &walk{euid: euid, make: true}
	err = w.along(path)
	switch {
	case err != nil:
		return "", err
	case !w.info.IsDir():
		return "", &fs.PathError{Op: "open", Path: w.at, Err: syscall.ENOTDIR}
	case w.sticky:
		return "", w.writable(w.at, w.info)
	}
	return w.at, nil
}

// A walk goes along a path.
type walk struct {
	euid   int         // whose files are trusted besides root's
	make   bool        // directories that do not exist, with mode 0700
	at     string      // without links
	info   fs.FileInfo // of at
	sticky bool        // others may add names in at
	links  int
}

// along goes along path from the root. A link in it begins another path.
func (w *walk) along(path string) error {
	w.at, w.sticky = "/", false
	names := append([]string{"/"}, strings.Split(path, "/")...)
	for i, name := range names {
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(w.at, name)
		info, err := w.look(next)
		if err == nil && i > 0 && !w.info.IsDir() {
			err = &fs.PathError{Op: "follow", Path: next, Err: syscall.ENOTDIR}
		}
		if err == nil {
			err = w.trust(next, info)
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(next)
			if w.links++; err == nil && w.links > maxLinks {
				err = &fs.PathError{Op: "follow", Path: next, Err: syscall.ELOOP}
			}
			if err != nil {
				return err
			}
			if !filepath.IsAbs(target) {
				target = w.at + "/" + target
			}
			return w.along(target + "/" + strings.Join(names[i+1:], "/"))
		}
		w.at, w.info = next, info
	}
	return nil
}

// look is what is at path, which is made if that is asked for.
func (w *walk) look(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if !w.make || !errors.Is(err, fs.ErrNotExist) {
		return info, err
	}
	if err = os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.Lstat(path)
}

// trust checks one component, and notes what counts for the next one.
func (w *walk) trust(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner cannot be told", path)
	}
	if st.Uid != 0 && int(st.Uid) != w.euid {
		return &Untrusted{path, fmt.Sprintf("%s belongs to user %d, who could change it: it has to belong to %s", path, st.Uid, w.owners())}
	}
	link, dir := info.Mode()&fs.ModeSymlink != 0, info.IsDir()
	if w.sticky && !dir {
		return &Untrusted{path, fmt.Sprintf("%s lies in a directory that everybody may write in: move it to one that only %s can", path, w.owners())}
	}
	w.sticky = !link && info.Mode().Perm()&othersWrite(w.euid) != 0 // a link's mode means nothing
	if w.sticky && (!dir || info.Mode()&fs.ModeSticky == 0) {
		return w.writable(path, info)
	}
	return nil
}

func (w *walk) writable(path string, info fs.FileInfo) error {
	return &Untrusted{path, fmt.Sprintf("others may write %s (mode %#o): chmod go-w %s", path, info.Mode().Perm(), path)}
}

// othersWrite are the permissions that let others than euid write.
func othersWrite(euid int) fs.FileMode {
	if euid == 0 {
		return 0o022
	}
	return 0o002
}

// owners are the users that may own the path.
func (w *walk) owners() string {
	if w.euid == 0 {
		return "root"
	}
	return fmt.Sprintf("root or user %d", w.euid)
}

// FileOf names the file that fd is, for a sentence: by its path, if it has one.
func FileOf(fd int) string {
	if path := PathOf(fd); path != "" {
		return strconv.Quote(path)
	}
	return "a file"
}
