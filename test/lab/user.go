// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
)

// A User is an account that a root lab starts a guest under. A daemon that runs as root takes no socket path of root's own
// for a client: a client names the path, and it could be any program's of the system.
type User struct {
	UID, GID uint32
	// Group is the name of the group GID, for --socket-group.
	Group string
}

// OtherUser is the account nobody if the caller is root. It is nil for an ordinary user, whose daemon serves that user's own
// socket paths.
func OtherUser() (*User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("find an account for a guest: %w", err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("find the group of account nobody: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the id of account nobody: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the group of account nobody: %w", err)
	}
	return &User{UID: uint32(uid), GID: uint32(gid), Group: g.Name}, nil
}

// letIn makes dir the user's own, lets others pass through the lab's directory and puts the guests' kernel there: the cache
// may lie in a home that is closed to them. It returns the kernel's path.
func (l *Lab) letIn(u *User, dir string) (kernel string, err error) {
	if err := os.Chown(dir, int(u.UID), int(u.GID)); err != nil {
		return "", fmt.Errorf("give a directory to a guest: %w", err)
	}
	if err := os.Chmod(l.Dir, 0o711); err != nil {
		return "", fmt.Errorf("let a guest into the lab's directory: %w", err)
	}
	l.kernelOnce.Do(func() { l.kernelErr = copyFile(l.Path("vmlinuz"), l.opts.Tools.Kernel) })
	return l.Path("vmlinuz"), l.kernelErr
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy kernel: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("copy kernel: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("copy kernel: %w", err)
	}
	return out.Close()
}
