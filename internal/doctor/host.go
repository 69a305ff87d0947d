// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/user"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/find"
	"github.com/socket-vmnet2/socket_vmnet2/internal/freenet"
	"github.com/socket-vmnet2/socket_vmnet2/internal/migrate"
)

// Host is the machine itself.
func Host(program, version string, homes []string) System {
	s := System{
		Homes: homes, GOOS: runtime.GOOS, Program: program, Version: version, User: caller(),
		Env: os.Getenv, Run: find.RunProgram, Processes: find.Processes, Table: freenet.System,
		Dial:  new(net.Dialer).DialContext,
		Group: groupName, Members: members,
		Find: func(sockets []string) []find.Daemon {
			machine := find.Machine()
			if len(sockets) == 0 {
				return find.Daemons(machine)
			}
			var named []find.Daemon
			for _, s := range sockets {
				named = append(named, find.One(machine, s))
			}
			return named
		},
	}
	if !s.User.Behind {
		s.Writable = func(path string) error { return unix.Access(path, unix.W_OK) }
	}
	s.Ask = func(ctx context.Context, controlSocket, what string) (int, json.RawMessage, error) {
		return control.Ask(ctx, controlSocket, http.MethodGet, what)
	}
	return s
}

// Staged is a system on a disk: files only.
func Staged(root, program, version string, homes []string) System {
	return System{Root: root, Homes: homes, GOOS: stagedOS(root), Program: program, Version: version, User: User{Staged: true}}
}

// stagedOS tells by a directory that only macOS has what kind of system is below root.
func stagedOS(root string) string {
	for _, dir := range []string{"/System/Library", "/Library/LaunchDaemons", "/Users", "/opt/homebrew"} {
		if _, err := (migrate.System{Root: root}).Stat(dir); err == nil {
			return "darwin"
		}
	}
	return runtime.GOOS
}

// caller is the user, or who called sudo.
func caller() User {
	u := User{UID: os.Getuid(), GID: os.Getgid()}
	if u.UID == 0 {
		if who, ok := behindSudo(); ok {
			return who
		}
	}
	u.Groups, _ = os.Getgroups()
	if entry, err := user.LookupId(strconv.Itoa(u.UID)); err == nil {
		u.Name = entry.Username
	}
	return u
}

// behindSudo is the user that sudo(8) tells of. It is only whose permissions are looked at.
func behindSudo() (User, bool) {
	entry, err := user.Lookup(os.Getenv("SUDO_USER"))
	if err != nil {
		return User{}, false
	}
	u := User{Name: entry.Username, Behind: true}
	if u.UID, err = strconv.Atoi(entry.Uid); err != nil || u.UID == 0 {
		return User{}, false
	}
	u.GID, _ = strconv.Atoi(entry.Gid)
	u.Groups = members(entry.Username)
	return u, true
}

// members are the groups that a login of the user would have.
func members(name string) (gids []int) {
	entry, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	ids, err := entry.GroupIds()
	if err != nil {
		return nil
	}
	for _, id := range ids {
		if gid, err := strconv.Atoi(id); err == nil {
			gids = append(gids, gid)
		}
	}
	return gids
}

func groupName(gid int) string {
	g, err := user.LookupGroupId(strconv.Itoa(gid))
	if err != nil {
		return ""
	}
	return g.Name
}
