// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/freenet"
)

// A System is what there is to examine, and all that checks ask.
type System struct {
	find.System
	User    account    // for whom permissions are checked
	Sockets []string   // to look at, and at no other; empty: all that are found
	Reach   netip.Addr // a guest that should be reachable; zero: none

	// A staged system has none of these, unless they are recorded.
	Table    func() (*freenet.Table, error)                                                // interfaces and routes
	Ask      func(ctx context.Context, control, what string) (int, json.RawMessage, error) // a control socket
	Writable func(path string) error                                                       // for the user: access(2)
	Group    func(gid int) string                                                          // its name, or else its number
}

// Host is the machine itself, or below another root the files of a system.
func Host(s find.System) System {
	if s.Staged() {
		s.GOOS = stagedOS(s)
		return System{System: s, User: account{Staged: true}, Group: strconv.Itoa}
	}
	h := System{
		System: s, User: caller(), Table: freenet.System, Group: groupName,
		Ask: func(ctx context.Context, controlSocket, what string) (int, json.RawMessage, error) {
			return control.Ask(ctx, controlSocket, http.MethodGet, what, nil)
		},
	}
	if !h.User.Behind {
		h.Writable = func(path string) error { return unix.Access(path, unix.W_OK) }
	}
	return h
}

// stagedOS tells by a directory that only macOS has what kind of system is staged.
func stagedOS(s find.System) string {
	for _, dir := range []string{"/System/Library", "/Library/LaunchDaemons", "/Users", "/opt/homebrew"} {
		if _, err := s.Stat(dir); err == nil {
			return "darwin"
		}
	}
	return runtime.GOOS
}

// An account is the one whose permissions are checked.
type account struct {
	UID, GID int
	Groups   []int
	Login    []int // groups as the next login would have them
	Name     string
	Staged   bool // no particular one: permissions are not checked
	Behind   bool // it is the one that called sudo
}

func (u account) isRoot() bool { return u.UID == 0 && !u.Staged && !u.Behind }

// String names the user for the report.
func (u account) String() string {
	switch {
	case u.Staged:
		return "no particular one"
	case u.Name != "":
		return u.Name + " (" + strconv.Itoa(u.UID) + ")"
	}
	return strconv.Itoa(u.UID)
}

// caller is the user, behind sudo(8) the one that called it. Only permissions are looked at with it.
func caller() account {
	u := account{UID: os.Getuid(), GID: os.Getgid()}
	u.Groups, _ = os.Getgroups()
	entry, err := user.LookupId(strconv.Itoa(u.UID))
	if behind, berr := user.Lookup(os.Getenv("SUDO_USER")); berr == nil && u.UID == 0 && behind.Uid != "0" {
		u.Behind, entry, err = true, behind, nil
	}
	if err != nil {
		return u
	}
	u.Name = entry.Username
	ids, _ := entry.GroupIds()
	for _, id := range ids {
		if gid, err := strconv.Atoi(id); err == nil {
			u.Login = append(u.Login, gid)
		}
	}
	if u.Behind {
		u.UID, _ = strconv.Atoi(entry.Uid)
		u.GID, _ = strconv.Atoi(entry.Gid)
		u.Groups = u.Login
	}
	return u
}

// groupName is a group's name, or else its number.
func groupName(gid int) string {
	number := strconv.Itoa(gid)
	if g, err := user.LookupGroupId(number); err == nil {
		return g.Name
	}
	return number
}

// A node is what stat tells of a file.
type node struct {
	fs.FileMode
	uid, gid int
}

// node is what path leads to. The owner of a staged root counts as root.
func (s System) node(path string) (node, error) {
	fi, err := s.Stat(path)
	if err != nil {
		return node{}, err
	}
	n := node{FileMode: fi.Mode()}
	n.uid, n.gid = find.Owner(fi)
	if top, err := os.Stat(s.Root); err == nil && s.Staged() {
		uid, gid := find.Owner(top)
		if n.uid == uid {
			n.uid = 0
		}
		if n.gid == gid {
			n.gid = 0
		}
	}
	return n, nil
}

// Bits of a mode, as they are for others.
const (
	mayWrite = 0o2
	mayEnter = 0o1
)

// allows tells whether a user has this bit by the mode. Only one class counts: an owner is not helped by the group.
func (n node) allows(u account, bit fs.FileMode) bool {
	switch {
	case u.UID == 0:
		return true
	case n.uid == u.UID:
		bit <<= 6
	case u.GID == n.gid || slices.Contains(u.Groups, n.gid):
		bit <<= 3
	}
	return n.Perm()&bit != 0
}

// maxFile is the largest file that is read, in bytes: some thousand leases.
const maxFile = 1 << 20

func (s System) readFile(path string) ([]byte, error) { return s.ReadFile(path, maxFile) }

// readPlist reads a property list in any of its forms.
func (s System) readPlist(path string, into any) error {
	b, err := s.readFile(path)
	if err != nil {
		return err
	}
	return find.UnmarshalPlist(b, into)
}
