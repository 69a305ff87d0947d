// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/socket-vmnet2/socket_vmnet2/internal/shell"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// Bits of a mode, as they are for others.
const (
	mayWrite = 0o2
	mayEnter = 0o1
)

// allows tells whether a user has this bit by the mode. Only one class counts: who owns a file is not helped by its group.
func (n node) allows(u User, bit fs.FileMode) bool {
	switch {
	case u.UID == 0:
		return true
	case n.uid == u.UID:
		bit <<= 6
	case u.in(n.gid):
		bit <<= 3
	}
	return n.Perm()&bit != 0
}

// checkPermissions tells whether the user may connect to the sockets, and what to do where not.
func checkPermissions(x *exam) {
	if x.User.Staged {
		x.skip(false, "whether a user may connect: on a staged system there is none")
		return
	}
	n := 0
	for _, p := range x.places {
		if p.exists && p.node.Type() != fs.ModeSocket || p.Status == nil && p.Daemon == nil && len(x.Sockets) == 0 {
			continue // what is left over helps nobody who may connect
		}
		n++
		where, at, err := x.denied(p.Socket)
		data := map[string]any{"socket": p.Socket, "user": x.User.Name, "uid": x.User.UID}
		switch {
		case err != nil && !absent(err):
			x.skip(false, "%s: %s", p.Socket, reason(err))
		case err != nil:
			n--
		case where == "", x.Writable != nil && x.Writable(x.real(p.Socket)) == nil: // access control lists may say more than modes
			x.find(OK, fmt.Sprintf("%s may connect to %s", x.User, p.Socket), data)
		case where != p.Socket:
			data["component"] = where
			x.find(status.Error, fmt.Sprintf("%s may not connect to %s: the directory %s (%s) lets only its owner and group in",
				x.User, p.Socket, where, x.ownerText(at)), data, append([]string{"have the daemon make its socket in another directory, or join the group:"}, x.joinGroup(at)...)...)
		default:
			x.find(status.Error, fmt.Sprintf("%s may not connect to %s (%s): programs that try get \"Permission denied\"", x.User, p.Socket, x.ownerText(at)),
				data, x.socketFix(p, at)...)
		}
	}
	if n == 0 {
		x.ok("there is no daemon's socket that could be connected to")
	}
}

// denied is what on the way to a socket keeps the user from it; empty if nothing does.
func (x *exam) denied(socket string) (where string, at node, err error) {
	dir, err := x.files().Resolve(filepath.Dir(socket))
	if err != nil && !errors.Is(err, errPermission) {
		return "", at, err
	}
	if err != nil {
		dir = filepath.Dir(socket)
	}
	for i, c := range dir + "/" {
		if c != '/' {
			continue
		}
		component := dir[:max(i, 1)]
		n, err := x.lstat(component)
		if err != nil {
			return "", n, err
		}
		if !n.allows(x.User, mayEnter) {
			return component, n, nil
		}
	}
	n, err := x.lstat(socket)
	if err != nil {
		return "", n, err
	}
	if !n.allows(x.User, mayWrite) {
		return socket, n, nil
	}
	return "", n, nil
}

// ownerText is as ls -l has it.
func (x *exam) ownerText(n node) string {
	return fmt.Sprintf("user %d, group %s, mode %04o", n.uid, x.groupName(n.gid), n.Perm())
}

// socketFix is what helps somebody who may not write to a socket.
func (x *exam) socketFix(p *place, at node) []string {
	group := at.gid
	if group != 0 && at.Perm()&(mayWrite<<3) != 0 {
		return x.joinGroup(at)
	}
	own := "admin"
	if x.GOOS != "darwin" {
		own = x.groupName(x.User.GID)
	}
	fix := []string{
		"its group has no access, or is root's: start the daemon for a group that the user is in, or for this user alone",
		command("--socket-group=" + own),
	}
	if p.Status != nil || p.Daemon != nil && p.Daemon.Ours {
		fix = append(fix, command("--socket-user="+shell.Quote(x.userName())))
	}
	return fix
}

func (x *exam) userName() string {
	if x.User.Name != "" {
		return x.User.Name
	}
	return strconv.Itoa(x.User.UID)
}

// joinGroup is how the user becomes a member of a file's group. dseditgroup(8) and usermod(8).
func (x *exam) joinGroup(n node) []string {
	if n.gid == 0 || n.Perm()&0o070 == 0 {
		return []string{"its group would not help; see --socket-user and --socket-group of the daemon"}
	}
	if x.Members != nil && slices.Contains(x.Members(x.User.Name), n.gid) {
		return []string{"the user is in that group, but has been only since this login: log out and in again"}
	}
	group, user := shell.Quote(x.groupName(n.gid)), shell.Quote(x.userName())
	line := "sudo usermod --append --groups " + group + " " + user
	if x.GOOS == "darwin" {
		line = "sudo dseditgroup -o edit -a " + user + " -t user " + group
	}
	return []string{"add the user to the group, then log out and in again: groups are read at the login", command(line)}
}

// checkState looks at where daemons keep leases and identities.
func checkState(x *exam) {
	n := 0
	for _, p := range x.places {
		if p.Status == nil {
			continue
		}
		n++
		file := p.Status.Daemon.StateFile
		if file == "" {
			x.find(status.Notice, fmt.Sprintf("the daemon at %s keeps no state: after a restart guests may get other addresses", p.Socket),
				map[string]any{"socket": p.Socket}, "see the warning in its log; --state-dir=DIR names a directory that only it and root can change")
			continue
		}
		x.own(p, filepath.Dir(file), "keeps its state in")
	}
	if n == 0 {
		x.ok("no daemon tells where it keeps its state")
	}
}

// own checks that a directory of a daemon is nobody else's to change.
func (x *exam) own(p *place, dir, does string) {
	at, err := x.lstat(dir)
	data := map[string]any{"socket": p.Socket, "directory": dir}
	uid := p.Status.Daemon.UID
	switch {
	case absent(err):
		x.find(status.Notice, fmt.Sprintf("the daemon at %s %s %s, and that is not there (any more)", p.Socket, does, dir), data, "start the daemon again: it makes it")
	case err != nil:
		x.skip(errors.Is(err, errPermission), "%s: %s", dir, reason(err))
	case at.uid != 0 && at.uid != uid:
		x.find(status.Warning, fmt.Sprintf("the daemon at %s runs as user %d and %s %s, which belongs to user %d", p.Socket, uid, does, dir, at.uid), data,
			"give it to the daemon's user, and start the daemon again:", command(fmt.Sprintf("sudo chown -R %d %s", uid, shell.Quote(dir))))
	case at.Perm()&mayWrite != 0 && at.FileMode&fs.ModeSticky == 0 || at.Perm()&(mayWrite<<3) != 0 && at.gid != 0 && !strings.HasSuffix(dir, "/dgram"):
		x.find(status.Warning, fmt.Sprintf("the daemon at %s %s %s, which others can change (%s)", p.Socket, does, dir, x.ownerText(at)), data,
			"take that from them:", command("sudo chmod go-w "+shell.Quote(dir)))
	default:
		x.find(OK, fmt.Sprintf("the daemon at %s %s %s, which others cannot change", p.Socket, does, dir), data)
	}
}

// checkRuntime looks at the directories SOCKET.d.
func checkRuntime(x *exam) {
	n := 0
	for _, p := range x.places {
		if p.Status == nil {
			continue
		}
		n++
		dir := p.Status.Daemon.RuntimeDir
		if dir == "" {
			x.find(status.Notice, fmt.Sprintf("the daemon at %s says nothing of a runtime directory", p.Socket), nil)
			continue
		}
		x.own(p, dir, "has its further sockets in")
	}
	if n == 0 {
		x.ok("no daemon tells of a runtime directory")
	}
}
