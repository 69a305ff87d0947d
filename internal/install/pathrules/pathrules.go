// SPDX-License-Identifier: Apache-2.0

// Package pathrules tells whether a path can be changed by nobody but root. A program that sudo or launchd runs as root must be at
// such a path, and Lima refuses to start a socket_vmnet that is not: the rules are those of its validatePath
// (pkg/networks/validate.go), for the path and for every directory above it.
package pathrules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
)

// daemonGID is the group daemon on macOS and Linux, which may write to Lima's varRun.
const daemonGID = 1

const (
	groupWritable = 0o020
	worldWritable = 0o002
)

// Options say what is no fault.
type Options struct {
	Root             string // a staged root: nothing above it is looked at, and its owner and group count as root's; empty: the real one
	Missing          bool   // what is not there yet is no fault, nor is what would be below it
	AllowSpace       bool   // Lima takes no path with a space
	AllowDaemonGroup bool   // the group daemon may write, as in Lima's varRun
}

// An Error is the first fault on the way from the root to a path.
type Error struct {
	Path      string // as it was asked for
	Component string // that breaks a rule, without the staged root
	Problem   string // as in "is a symbolic link to /private/var"
	Fix       string // what to do, as a sentence without its end
	Err       error  // what the system said; nil for a broken rule
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s", e.Component, e.Problem)
	if e.Component != e.Path {
		text = fmt.Sprintf("%s is not safe: %s", e.Path, text)
	}
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Check returns nil if nobody but root can change path, a clean absolute path below Options.Root, and otherwise an *Error.
func Check(path string, o Options) error {
	if err := checkText(path, o); err != nil {
		return err
	}
	owner, err := rootOf(path, o.Root)
	if err != nil {
		return err
	}
	owner.daemon = o.AllowDaemonGroup
	for _, component := range components(path) {
		fi, err := os.Lstat(filepath.Join(o.Root, component))
		if err != nil {
			if os.IsNotExist(err) && o.Missing {
				return nil
			}
			return unreadable(path, component, err)
		}
		if e := owner.check(component, fi, filepath.Join(o.Root, component), component == path); e != nil {
			e.Path = path
			return e
		}
	}
	return nil
}

// checkText is about the path's spelling alone.
func checkText(path string, o Options) error {
	e := &Error{Path: path, Component: path}
	switch {
	case path == "":
		e.Component = `""`
		e.Path = e.Component
		e.Problem, e.Fix = "is no path", "name one that begins with /"
	case !strings.HasPrefix(path, "/"):
		e.Problem, e.Fix = "is not absolute", "name a path that begins with /"
	case !o.AllowSpace && strings.ContainsRune(path, ' '):
		e.Problem, e.Fix = "contains a space, which Lima does not take", "choose a path without"
	case strings.ContainsAny(path, "\x00\n"):
		e.Component = fmt.Sprintf("%q", path)
		e.Path = e.Component
		e.Problem, e.Fix = "contains a character that paths do not have", "choose a path without"
	case filepath.Clean(path) != path:
		e.Problem, e.Fix = "is not in its shortest form", "name it as "+filepath.Clean(path)
	default:
		return nil
	}
	return e
}

// components are the root, and what is on the way to path, and path.
func components(path string) []string {
	all := []string{"/"}
	for i, c := range path {
		if c == '/' && i > 0 {
			all = append(all, path[:i])
		}
	}
	if path != "/" {
		all = append(all, path)
	}
	return all
}

// trusted is who counts as root.
type trusted struct {
	uid, gid uint32
	staged   bool
	daemon   bool
}

// rootOf is root, or who owns the staged root.
func rootOf(path, root string) (trusted, error) {
	if root == "" || root == "/" {
		return trusted{}, nil
	}
	fi, err := os.Stat(root)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "stat", Path: root, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return trusted{}, &Error{Path: path, Component: root, Problem: "cannot be the root: " + reason(err), Err: err}
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return trusted{}, &Error{Path: path, Component: root, Problem: "has no owner on this system"}
	}
	return trusted{uid: st.Uid, gid: st.Gid, staged: true}, nil
}

// check holds one component against the rules; real is where it is, last whether it is the path itself.
func (r trusted) check(component string, fi fs.FileInfo, real string, last bool) *Error {
	if fi.Mode()&fs.ModeSymlink != 0 {
		e := &Error{Component: component, Problem: "is a symbolic link", Fix: "name the path it leads to"}
		if to, err := os.Readlink(real); err == nil {
			e.Problem += " to " + to
		}
		return e
	}
	if !last && !fi.IsDir() {
		return &Error{Component: component, Problem: "is not a directory", Fix: "move it away", Err: syscall.ENOTDIR}
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return &Error{Component: component, Problem: "has no owner on this system"}
	}
	perm := fi.Mode().Perm()
	switch {
	case st.Uid != 0 && !(r.staged && st.Uid == r.uid):
		return &Error{
			Component: component, Problem: fmt.Sprintf("belongs to user %d, not to root", st.Uid), Fix: "sudo chown root " + shell.Quote(real),
		}
	case perm&worldWritable != 0:
		return &Error{Component: component, Problem: fmt.Sprintf("can be written by everybody (mode %04o)", perm), Fix: "sudo chmod o-w " + shell.Quote(real)}
	case perm&groupWritable != 0 && !r.group(st.Gid):
		return &Error{
			Component: component, Problem: fmt.Sprintf("can be written by group %d (mode %04o)", st.Gid, perm), Fix: "sudo chmod g-w " + shell.Quote(real),
		}
	}
	return nil
}

// group reports whether the members of a group are trusted.
func (r trusted) group(gid uint32) bool {
	return gid == 0 || r.daemon && gid == daemonGID || r.staged && gid == r.gid
}

// unreadable is for a component that cannot be looked at.
func unreadable(path, component string, err error) *Error {
	e := &Error{Path: path, Component: component, Problem: reason(err), Err: err}
	switch {
	case os.IsNotExist(err):
		e.Problem = "does not exist"
	case os.IsPermission(err):
		e.Problem, e.Fix = "cannot be looked at: "+reason(err), "try it as root"
	default:
		e.Problem = "cannot be looked at: " + reason(err)
	}
	return e
}

// reason is what the system said, without the path.
func reason(err error) string {
	if pe := new(fs.PathError); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
