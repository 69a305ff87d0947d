// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks bounds the symbolic links in a path, as the kernels do.
const maxLinks = 40

// A Binary is a program that only root and we can change.
type Binary struct {
	Path     string // as it was asked for, but for Homebrew's directories of versions
	Resolved string // without links
	info     fs.FileInfo
}

// Find looks at the program that is to follow the one at start. A *Refusal says what is wrong with it.
//
// Every component from the root on, and every link, must belong to root or to us. None may be writable by others. For a
// daemon of root that includes the group, as sudo has it for its own files and Lima for what sudo may run; a user's group
// counts as the user, since many systems give each user one of its own, and Homebrew's directories belong to a group. A
// directory with the sticky bit, such as /tmp, may be writable, since nobody can replace what is root's or ours there, but
// only a directory in it counts, not a link or the program itself, which others could have put there first.
func Find(start string) (*Binary, error) {
	b := &Binary{Path: follow(start)}
	if err := b.look(os.Geteuid()); err != nil {
		return nil, err
	}
	return b, nil
}

// Same checks that b is still what Find saw.
func (b *Binary) Same() error {
	now, err := os.Lstat(b.Resolved)
	if err == nil && (!os.SameFile(now, b.info) || now.Size() != b.info.Size() || !now.ModTime().Equal(b.info.ModTime())) {
		err = errors.New("it was replaced while it was being tried: ask again")
	}
	if err != nil {
		return refusef(CodeUnusable, "%s: %w", b.Path, err)
	}
	return nil
}

// look follows the path.
func (b *Binary) look(euid int) error {
	w := walk{euid: euid, todo: strings.Split(b.Path, "/"), at: "/"}
	info, err := os.Lstat("/")
	if err != nil {
		return refuse(CodeUnusable, err)
	}
	if err := w.trust("/", info); err != nil {
		return b.refuse(err)
	}
	w.info = info
	for len(w.todo) > 0 {
		if err := w.step(); err != nil {
			return b.refuse(err)
		}
	}
	b.Resolved, b.info = w.at, w.info
	return b.usable()
}

// refuse says what is wrong on the way to the program.
func (b *Binary) refuse(err error) *Refusal {
	code := CodeUnusable
	if errors.Is(err, errUntrusted) {
		code = CodeUntrusted
	}
	return refusef(code, "the new program %s is not run: %w", b.Path, err)
}

var errUntrusted = errors.New("not to be trusted")

// untrusted says what to do about a component that somebody else can change.
type untrusted struct{ text string }

func (u untrusted) Error() string { return u.text }

func (untrusted) Is(err error) bool { return err == errUntrusted }

// A walk goes along a path.
type walk struct {
	euid   int
	todo   []string
	at     string      // without links
	info   fs.FileInfo // of at
	sticky bool        // others may add names in at
	links  int
}

// step takes one component.
func (w *walk) step() error {
	name := w.todo[0]
	w.todo = w.todo[1:]
	switch name {
	case "", ".":
		return nil
	case "..":
		return w.goTo(filepath.Dir(w.at))
	}
	next := filepath.Join(w.at, name)
	info, err := os.Lstat(next)
	if err != nil {
		return err
	}
	if err := w.trust(next, info); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		w.at, w.info = next, info
		return nil
	}
	if w.links++; w.links > maxLinks {
		return &fs.PathError{Op: "follow", Path: next, Err: syscall.ELOOP}
	}
	target, err := os.Readlink(next)
	if err != nil {
		return err
	}
	w.todo = append(strings.Split(target, "/"), w.todo...)
	if filepath.IsAbs(target) {
		return w.goTo("/")
	}
	return nil
}

// goTo goes to a directory that the walk has been in.
func (w *walk) goTo(dir string) (err error) {
	w.at, w.sticky = dir, false
	if w.info, err = os.Lstat(dir); err != nil {
		return err
	}
	return w.trust(dir, w.info)
}

// trust checks one component, and notes what counts for the next one.
func (w *walk) trust(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner cannot be told", path)
	}
	if st.Uid != 0 && int(st.Uid) != w.euid {
		return untrusted{fmt.Sprintf("%s belongs to user %d, who could change it: it has to belong to %s%s",
			path, st.Uid, w.who(), homebrew(path))}
	}
	link, dir := info.Mode()&fs.ModeSymlink != 0, info.IsDir()
	if w.sticky && !dir {
		return untrusted{fmt.Sprintf("%s lies in a directory that everybody may write in: move it to one that only %s can", path, w.who())}
	}
	w.sticky = false
	if link || info.Mode().Perm()&w.others() == 0 { // a link's mode means nothing
		return nil
	}
	if dir && info.Mode()&fs.ModeSticky != 0 {
		w.sticky = true
		return nil
	}
	return untrusted{fmt.Sprintf("others may write %s (mode %#o): chmod go-w %s", path, info.Mode().Perm(), path)}
}

// others are the permissions that let somebody else write.
func (w *walk) others() fs.FileMode {
	if w.euid == 0 {
		return 0o022
	}
	return 0o002
}

// who may own the program.
func (w *walk) who() string {
	if w.euid == 0 {
		return "root"
	}
	return fmt.Sprintf("root or user %d", w.euid)
}

// homebrew adds what to do about a program that was installed by a user.
func homebrew(path string) string {
	for _, prefix := range []string{"/opt/homebrew", "/usr/local/Cellar", "/usr/local/opt", "/home/linuxbrew"} {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return "; Homebrew's directories belong to a user, so a daemon of root is upgraded by starting it again, or is to be installed elsewhere"
		}
	}
	return ""
}

// usable checks that the program can be run at all.
func (b *Binary) usable() error {
	switch {
	case !b.info.Mode().IsRegular():
		return refusef(CodeUnusable, "the new program %s is not run: it is no regular file", b.Path)
	case b.info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return refusef(CodeUnusable, "the new program %s is not run: it would become another user (mode %v)", b.Path, b.info.Mode())
	case b.info.Mode().Perm()&0o111 == 0 || unix.Access(b.Resolved, unix.X_OK) != nil:
		return refusef(CodeUnusable, "the new program %s is not run: it is not executable: chmod +x %s", b.Path, b.Path)
	}
	f, err := os.OpenFile(b.Resolved, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return refusef(CodeUnusable, "the new program %s is not run: %w", b.Path, err)
	}
	return f.Close()
}
