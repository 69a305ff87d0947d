// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/ops/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/printable"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// checkPermissions tells whether the user may connect to the sockets, and what to do where not.
func checkPermissions(x *exam) {
	for _, k := range x.sockets {
		if x.isOther(k) || k.Status == nil && k.PID == 0 && len(x.Named) == 0 {
			continue // being allowed to connect to what is left over is of no use
		}
		where, at, err := x.denied(k.Socket)
		switch {
		case err != nil && find.Absent(err):
		case err != nil:
			x.skip(false, "%s: %s", k.Socket, hostfs.Reason(err))
		case where == "", x.Writable != nil && x.Writable(filepath.Join(x.Root, k.Socket)) == nil: // access control lists may say more than modes
			x.ok("%s may connect to %s", x.User, k.Socket)
		case where != k.Socket:
			x.report(status.Error, append([]string{"have the daemon make its socket in another directory, or join the group:"}, x.joinGroup(at)...),
				"%s may not connect to %s: the directory %s (%s) lets only its owner and group in", x.User, k.Socket, where, x.ownerText(at))
		default:
			x.report(status.Error, x.socketFix(k, at), "%s may not connect to %s (%s): programs that try get \"Permission denied\"", x.User, k.Socket, x.ownerText(at))
		}
	}
}

// denied is what on the way to a socket keeps the user from it; empty if nothing does.
func (x *exam) denied(path string) (where string, at node, err error) {
	for i, c := range x.Real(path) {
		if c != '/' {
			continue
		}
		dir := x.Real(path)[:max(i, 1)]
		if at, err = x.node(dir); err != nil || !at.allows(x.User, mayEnter) {
			return dir, at, err
		}
	}
	if at, err = x.node(path); err == nil && !at.allows(x.User, mayWrite) {
		where = path
	}
	return where, at, err
}

// ownerText is as ls -l has it.
func (x *exam) ownerText(n node) string {
	return fmt.Sprintf("user %d, group %s, mode %04o", n.uid, x.Group(n.gid), n.Perm())
}

// socketFix is what helps a user that may not write to a socket.
func (x *exam) socketFix(k *socket, at node) []string {
	if at.gid != 0 && at.Perm()&(mayWrite<<3) != 0 {
		return x.joinGroup(at)
	}
	own := "admin"
	if x.GOOS != "darwin" {
		if own = x.Group(x.User.GID); own == staff {
			own = kvm
		}
	}
	fix := []string{"its group has no access, or is root's: start the daemon for a group that the user is in, or for this user alone", "    --socket-group=" + own}
	if k.Status != nil || k.Ours {
		fix = append(fix, "    --socket-user="+printable.Quote(x.userName()))
	}
	return fix
}

func (x *exam) userName() string { return cmp.Or(x.User.Name, strconv.Itoa(x.User.UID)) }

// Groups for sockets: staff is the daemon's default, of which all users of a Mac are. On Linux its members may write to /usr/local where
// Debian was older once, so there it is that of the services.
const staff, kvm = "staff", "kvm"

// joinGroup is how the user becomes a member of a file's group. dseditgroup(8) and usermod(8).
func (x *exam) joinGroup(n node) []string {
	if n.gid == 0 || n.Perm()&0o070 == 0 {
		return []string{"its group would not help; see --socket-user and --socket-group of the daemon"}
	}
	group, user := printable.Quote(x.Group(n.gid)), printable.Quote(x.userName())
	line := "    sudo usermod --append --groups " + group + " " + user
	if x.GOOS != "darwin" && group == staff {
		return []string{
			"on Linux the group staff may change more than a network: start the daemon for the users of KVM, and add the user to them",
			"    --socket-group=" + kvm, "    sudo usermod --append --groups " + kvm + " " + user,
		}
	}
	if x.GOOS == "darwin" {
		line = "    sudo dseditgroup -o edit -a " + user + " -t user " + group
	}
	return []string{"add the user to the group, then log out and in again: groups are read at the login", line}
}

// checkState looks at where daemons keep leases and identities.
func checkState(x *exam) {
	for _, k := range x.telling() {
		x.own(k, filepath.Dir(k.Status.Daemon.StateFile), "keeps its state in", "keeps no state: after a restart guests may get other addresses",
			"see the warning in its log; --state-dir=DIR names a directory that only it and root can change")
	}
}

// checkRuntime looks at the directories SOCKET.d.
func checkRuntime(x *exam) {
	for _, k := range x.telling() {
		x.own(k, k.Status.Daemon.RuntimeDir, "has its further sockets in", "says nothing of a runtime directory")
	}
}

// own checks that no other user can change a directory of a daemon, if it has one.
func (x *exam) own(k *socket, dir, does, not string, fix ...string) {
	if dir == "" || dir == "." {
		x.report(status.Notice, fix, "the daemon at %s %s", k.Socket, not)
		return
	}
	at, err := x.node(dir)
	uid, it := k.Status.Daemon.UID, fmt.Sprintf("the daemon at %s %s %s", k.Socket, does, dir)
	switch {
	case err != nil && find.Absent(err):
		x.report(status.Notice, []string{"start the daemon again: it makes it"}, "%s, and that is not there (any more)", it)
	case err != nil:
		x.unreadable(dir, err)
	case at.uid != 0 && at.uid != uid:
		x.report(status.Warning, []string{"give it to the daemon's user, and start the daemon again:", fmt.Sprintf("    sudo chown -R %d %s", uid, printable.Quote(dir))},
			"%s, which belongs to user %d, and runs as user %d", it, at.uid, uid)
	case at.Perm()&mayWrite != 0 && at.FileMode&fs.ModeSticky == 0 || at.Perm()&(mayWrite<<3) != 0 && at.gid != 0 && !strings.HasSuffix(dir, "/dgram"):
		x.report(status.Warning, []string{"take that from them:", "    sudo chmod go-w " + printable.Quote(dir)}, "%s, which others can change (%s)", it, x.ownerText(at))
	default:
		x.ok("%s, which others cannot change", it)
	}
}

// An account is the one whose permissions are checked.
type account struct {
	UID, GID int
	Groups   []int
	Name     string
	Staged   bool // no particular one: permissions are not checked
	Behind   bool // it is the one that called sudo
}

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
	if entry, err := user.Current(); err == nil {
		u.Name = entry.Username
	}
	if behind, err := user.Lookup(os.Getenv("SUDO_USER")); err == nil && u.UID == 0 && behind.Uid != "0" {
		u = account{Name: behind.Username, Behind: true}
		u.UID, _ = strconv.Atoi(behind.Uid)
		u.GID, _ = strconv.Atoi(behind.Gid)
		ids, _ := behind.GroupIds()
		for _, id := range ids {
			gid, _ := strconv.Atoi(id)
			u.Groups = append(u.Groups, gid)
		}
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
