// SPDX-License-Identifier: Apache-2.0

package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
)

// daemonGID is the group daemon on macOS and Linux, which may write to Lima's varRun.
const daemonGID = 1

const (
	groupWritable = 0o020
	worldWritable = 0o002
)

// Options say what is no fault for Check.
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

// Check returns nil if only root can change path, a clean absolute path below Options.Root, and otherwise an *Error. Lima refuses to
// start a socket_vmnet that is at another one: the rules are those of its validatePath (pkg/networks/validate.go), for the path and
// for every directory above it.
func Check(path string, o Options) error {
	if e := checkText(path, o); e != nil {
		return e
	}
	var root Node // or the owner of the staged one
	if o.Root != "" && o.Root != "/" {
		var err error
		if root, err = (Place{Name: o.Root + "/."}).Node(); err != nil {
			return &Error{Path: path, Component: o.Root, Problem: "cannot be the root: " + Reason(err), Err: err}
		}
	}
	component := "/"
	for name := range strings.SplitSeq(path, "/") {
		component = filepath.Join(component, name)
		real := filepath.Join(o.Root, component)
		n, err := Place{Name: real}.Node()
		if os.IsNotExist(err) && o.Missing {
			return nil
		}
		e := unreadable(err)
		if err == nil {
			e = fault(n, root, real, component == path, o.AllowDaemonGroup)
		}
		if e != nil {
			e.Path, e.Component = path, component
			return e
		}
	}
	return nil
}

// checkText is about the path's spelling alone.
func checkText(path string, o Options) *Error {
	switch {
	case path == "":
		return &Error{`""`, `""`, "is not a path", "name one that begins with /", nil}
	case !strings.HasPrefix(path, "/"):
		return &Error{path, path, "is not absolute", "name a path that begins with /", nil}
	case !o.AllowSpace && strings.ContainsRune(path, ' '):
		return &Error{path, path, "contains a space, which Lima does not take", "choose a path without", nil}
	case strings.ContainsAny(path, "\x00\n"):
		quoted := fmt.Sprintf("%q", path)
		return &Error{quoted, quoted, "contains a character that paths do not have", "choose a path without", nil}
	case filepath.Clean(path) != path:
		return &Error{path, path, "is not in its shortest form", "name it as " + filepath.Clean(path), nil}
	}
	return nil
}

// fault holds one component against the rules; real is where it is, last whether it is the path itself.
func fault(n, root Node, real string, last, daemon bool) *Error {
	e, perm := &Error{}, n.Mode&0o777
	switch {
	case n.Kind() == unix.S_IFLNK:
		e.Problem, e.Fix = "is a symbolic link", "name the path it leads to"
		if to, err := os.Readlink(real); err == nil {
			e.Problem += " to " + to
		}
	case !last && n.Kind() != unix.S_IFDIR:
		e.Problem, e.Fix, e.Err = "is not a directory", "move it away", syscall.ENOTDIR
	case n.UID != 0 && n.UID != root.UID:
		e.Problem, e.Fix = fmt.Sprintf("belongs to user %d, not to root", n.UID), "sudo chown root "+printable.Quote(real)
	case perm&worldWritable != 0:
		e.Problem, e.Fix = fmt.Sprintf("can be written by everybody (mode %04o)", perm), "sudo chmod o-w "+printable.Quote(real)
	case perm&groupWritable != 0 && n.GID != 0 && n.GID != root.GID && !(daemon && n.GID == daemonGID):
		e.Problem, e.Fix = fmt.Sprintf("can be written by group %d (mode %04o)", n.GID, perm), "sudo chmod g-w "+printable.Quote(real)
	default:
		return nil
	}
	return e
}

// unreadable is for a component that cannot be looked at.
func unreadable(err error) *Error {
	switch {
	case os.IsNotExist(err):
		return &Error{Problem: "does not exist", Err: err}
	case os.IsPermission(err):
		return &Error{Problem: "cannot be looked at: " + Reason(err), Fix: "try it as root", Err: err}
	}
	return &Error{Problem: "cannot be looked at: " + fmt.Sprint(err), Err: err}
}

// Reason is what the system said, without the path.
func Reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	return err.Error()
}
