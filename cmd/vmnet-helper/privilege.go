// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// maxGroups is how many supplementary groups macOS takes.
const maxGroups = 16

// dropPrivileges becomes the user that called sudo, for good. Only the daemon needs privileges; up to macOS 15 minikube starts
// vmnet-helper by sudo because the original needs them itself. It comes first: root makes and opens nothing.
func dropPrivileges(log *logger) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 { // not the set-user-id bit, so that the environment is root's own
		var err error
		if uid, err = sudoID("SUDO_UID", uid); err != nil {
			return err
		}
		if gid, err = sudoID("SUDO_GID", gid); err != nil {
			return err
		}
	}
	if uid == 0 {
		return nil
	}
	if err := syscall.Setgroups(groupsOf(uid, gid)); err != nil {
		return fmt.Errorf("become uid %d: set groups: %w", uid, err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("become uid %d: set group %d: %w", uid, gid, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("become uid %d: %w", uid, err)
	}
	if syscall.Setuid(0) == nil || os.Geteuid() != uid {
		return fmt.Errorf("become uid %d: the privileges are still there", uid)
	}
	log.info("dropped privileges to uid: %d gid: %d", uid, gid)
	return nil
}

// sudoID reads an id that sudo has left in the environment.
func sudoID(name string, fallback int) (int, error) {
	text, ok := os.LookupEnv(name)
	if !ok {
		return fallback, nil
	}
	id, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("invalid %s %q in the environment", name, text)
	}
	return int(id), nil
}

// groupsOf returns the groups of a user, so that it may use a daemon that is for one of them. Its own comes first.
func groupsOf(uid, gid int) []int {
	groups := []int{gid}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return groups
	}
	ids, _ := u.GroupIds()
	for _, text := range ids {
		id, err := strconv.Atoi(text)
		if err == nil && !slices.Contains(groups, id) && len(groups) < maxGroups {
			groups = append(groups, id)
		}
	}
	return groups
}
