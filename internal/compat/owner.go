// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"errors"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An Owner is the user and the group that get the socket.
type Owner struct {
	UID  int // -1: unchanged
	GID  int // -1: the daemon's own group
	Mode os.FileMode
	// GroupName is what GID was looked up from, for the log.
	GroupName string
	// MustGroup makes it an error if the group cannot be set; else the daemon's own group takes its place.
	MustGroup bool
}

// Owner looks up user and group of the socket. Only names count, as in socket_vmnet: "20" is a group of that name. A group
// that does not exist is an error if it was given, and the daemon's own group if it is the default.
func (c *Config) Owner() (Owner, error) {
	o := Owner{UID: -1, GID: -1, Mode: c.SocketMode, GroupName: c.SocketGroup, MustGroup: c.SocketGroupSet}
	g, err := user.LookupGroup(c.SocketGroup)
	if err == nil {
		o.GID, err = strconv.Atoi(g.Gid)
	}
	if err != nil && c.SocketGroupSet {
		if !errors.As(err, new(user.UnknownGroupError)) {
			return o, bindError("getgrnam", err)
		}
		return o, &textError{Lines: []string{
			"unknown group name " + quoted(c.SocketGroup),
			// socket_vmnet prints errno here, which getgrnam leaves undefined.
			"socket_bindlisten: Invalid argument",
		}, Err: err}
	}
	if c.SocketUser == "" {
		return o, nil
	}
	if o.UID, _, err = lookUpUser(c.SocketUser); err != nil {
		return o, err
	}
	if euid := os.Geteuid(); euid != 0 && euid != o.UID {
		return o, needsRoot("--socket-user=" + c.SocketUser)
	}
	return o, nil
}

func needsRoot(what string) error {
	return &textError{Lines: []string{what + " needs root"}, Err: syscall.EPERM}
}

// lookUpUser is a user's number and that of the group.
func lookUpUser(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err == nil {
		uid, err = strconv.Atoi(u.Uid)
	}
	if err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return -1, -1, &textError{Lines: []string{"unknown user name " + quoted(name)}, Err: err}
	}
	return uid, gid, nil
}

// Give calls set with the user and the group. Where the default group cannot be set, the daemon's own takes its place; on macOS a new file
// has the group of its directory, so that one is set too. EINVAL is what a user namespace says that has no such group, as that of a
// rootless container. own tells that it is the daemon's.
func (o Owner) Give(set func(uid, gid int) error) (own bool, err error) {
	if o.GID >= 0 {
		err = set(o.UID, o.GID)
		if err == nil || o.MustGroup || !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) {
			return false, err
		}
	}
	return true, set(o.UID, os.Getegid())
}

// GatewayOwner looks up the user that the gateway's process becomes, -1 for none: the one that was asked for, or where root runs the
// daemon nobody. On macOS it is whether a child without root reaches the local network that is not known yet, so there root's stays.
func (c *Config) GatewayOwner() (uid, gid int, err error) {
	root := os.Geteuid() == 0
	switch {
	case c.GatewayUser != "" && !root:
		return -1, -1, needsRoot("--gateway-user=" + c.GatewayUser)
	case c.GatewayUser != "":
		return lookUpUser(c.GatewayUser)
	case !root || runtime.GOOS == "darwin":
		return -1, -1, nil
	}
	if uid, gid, err = lookUpUser("nobody"); err != nil { // a container, perhaps: the number is the same everywhere
		return overflowID, overflowID, nil
	}
	return uid, gid, nil
}

// overflowID is nobody's number where it has no name.
const overflowID = 65534

// bindError is a failed step of making the socket, in the two lines that socket_vmnet prints.
func bindError(step string, err error) *textError {
	te := newTextError(step, err)
	te.Lines = append(te.Lines, newTextError("socket_bindlisten", err).Lines...)
	return te
}

// unprivilegedKernel is the first version of macOS's kernel under which a signed program needs no root for vmnet: macOS 26.
const unprivilegedKernel = 25

// PrivilegeWarnings returns socket_vmnet's warnings about the user that the daemon runs as, as far as they are true here:
// root is needed by vmnet on macOS only, and no more since macOS 26, while a set-user-id binary is a bad idea everywhere.
func PrivilegeWarnings(goos string, b Backend, euid, uid int) []string {
	var u unix.Utsname
	_ = unix.Uname(&u) // the release stays empty
	return privilegeWarnings(goos, unix.ByteSliceToString(u.Release[:]), b, euid, uid)
}

// privilegeWarnings is PrivilegeWarnings under the given release of the kernel, such as "25.1.0", empty where it is not known. From macOS
// 26 on, the signature decides, and vmnet's refusal tells of it.
func privilegeWarnings(goos, release string, b Backend, euid, uid int) []string {
	first, _, _ := strings.Cut(release, ".")
	kernel, err := strconv.Atoi(first)
	var w []string
	if goos == "darwin" && (err != nil || kernel < unprivilegedKernel) && b.Resolve(goos) == BackendVmnet && euid != 0 {
		w = append(w, "Running without root. This is very unlikely to work: See README.md")
	}
	if euid != uid {
		w = append(w, "Seems running with SETUID. This is insecure and highly discouraged: See README.md")
	}
	return w
}
