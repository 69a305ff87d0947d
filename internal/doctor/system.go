// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
)

// A System is what there is to examine, and all that checks ask.
type System struct {
	Root    string   // a staged root directory; empty: the machine itself
	Homes   []string // home directories, below Root
	GOOS    string
	Program string // the socket_vmnet2 that runs this
	Version string // of it
	User    User   // who permissions are checked for

	Sockets []string   // to look at, and at no other; empty: all that are found
	Reach   netip.Addr // a guest that should be reachable; zero: none

	// A staged system has none of these, unless they are recorded.
	Env       func(key string) string
	Run       find.Runner // a program, within its context's time
	Processes func(context.Context) ([]find.Process, error)
	Table     func() (*freenet.Table, error)                                                // interfaces and routes
	Dial      func(ctx context.Context, network, address string) (net.Conn, error)          // socket or guest
	Ask       func(ctx context.Context, control, what string) (int, json.RawMessage, error) // a control socket
	Writable  func(path string) error                                                       // for the user: access(2)
	Find      func(sockets []string) []find.Daemon                                          // those named, or all
	Group     func(gid int) string                                                          // its name
	Members   func(user string) []int                                                       // groups as the next login would have them
}

// A User is somebody whose permissions are checked.
type User struct {
	UID, GID int
	Groups   []int
	Name     string
	Staged   bool // nobody in particular: permissions are not checked
	Behind   bool // it is who called sudo
}

func (u User) isRoot() bool { return u.UID == 0 && !u.Staged && !u.Behind }

func (u User) String() string {
	switch {
	case u.Staged:
		return "nobody in particular"
	case u.Name != "":
		return u.Name + " (" + strconv.Itoa(u.UID) + ")"
	}
	return strconv.Itoa(u.UID)
}

func (u User) in(gid int) bool { return u.GID == gid || slices.Contains(u.Groups, gid) }

// staged tells whether the machine itself is looked at.
func (s System) staged() bool { return s.Root != "" }

// live tells whether the processes and daemons of the machine can be looked at.
func (s System) live() bool { return s.Processes != nil }

// files is the part of the system that migrate knows how to read.
func (s System) files() migrate.System { return migrate.System{Root: s.Root} }

func (s System) real(path string) string { return filepath.Join(s.Root, path) }

func (s System) env(key string) string {
	if s.Env == nil {
		return ""
	}
	return s.Env(key)
}

// groupName names a group.
func (s System) groupName(gid int) string {
	if s.Group != nil {
		if name := s.Group(gid); name != "" {
			return name
		}
	}
	return strconv.Itoa(gid)
}

// A node is what stat tells of a file.
type node struct {
	fs.FileMode
	uid, gid int
}

// lstat does not follow a link at path's end, nor on its way in a staged system.
func (s System) lstat(path string) (node, error) {
	dir := filepath.Dir(path)
	if at, err := s.files().Resolve(dir); err == nil {
		dir = at
	}
	fi, err := os.Lstat(filepath.Join(s.Root, dir, filepath.Base(path)))
	if err != nil {
		return node{}, err
	}
	return s.nodeOf(fi), nil
}

// nodeOf is fi with the owner of a staged root as root.
func (s System) nodeOf(fi fs.FileInfo) node {
	n := node{FileMode: fi.Mode(), uid: -1, gid: -1}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return n
	}
	n.uid, n.gid = int(st.Uid), int(st.Gid)
	if s.staged() {
		if top, err := os.Lstat(s.Root); err == nil {
			if st, ok := top.Sys().(*syscall.Stat_t); ok {
				if n.uid == int(st.Uid) {
					n.uid = 0
				}
				if n.gid == int(st.Gid) {
					n.gid = 0
				}
			}
		}
	}
	return n
}

// maxFile is the largest file that is read, in bytes: some thousand leases.
const maxFile = 1 << 20

func (s System) readFile(path string) ([]byte, error) { return s.files().ReadFile(path, maxFile) }

// errNoPrograms says that programs are not run here.
var errNoPrograms = errors.New("programs are not run on a staged system")

// program runs one and returns what it says.
func (x *exam) program(name string, args ...string) (string, error) {
	if x.Run == nil {
		return "", errNoPrograms
	}
	out, err := x.Run(x.ctx, name, args...)
	if err != nil && x.ctx.Err() != nil {
		return "", fmt.Errorf("%s gave no answer within %v", filepath.Base(name), checkTime)
	}
	return string(out), err
}

// absent tells that there is no such file.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// reason is what the system said, without the path.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

// list joins words for a sentence.
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return "none"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

// count is a number with what is counted.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
