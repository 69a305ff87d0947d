// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ours are the names that this program uses in the directory, in any version.
var ours = []string{"attach", "adopt", "control", "control.root", dgramName, newName, lockName}

// errGone says that the directory was removed while it was being opened.
var errGone = errors.New("the directory was removed meanwhile")

// openOwn makes the directory or opens the one that is there, and checks whose it is.
func (d *Dir) openOwn() error {
	err := unix.Mkdirat(fd(d.parent), d.base, closedMode)
	created := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make runtime directory %s: %w", d.path, err)
	}
	f, n, err := d.openChild(d.parent, d.base, d.path)
	if err != nil {
		return err
	}
	d.dir = f
	d.created = d.created || created
	perm := n.mode & 0o7777
	switch {
	case created:
	case d.own():
		if perm != d.mode(dirMode) {
			return d.checkNames()
		}
	case perm&0o022 != 0:
		return fmt.Errorf("runtime directory %s: others may write in it (mode %#o): chmod go-w %s, or give another one with --runtime-dir",
			d.path, perm, d.path)
	}
	return nil
}

// openChild opens the directory name in parent, which must be ours. path is its name in messages.
func (d *Dir) openChild(parent *os.File, name, path string) (*os.File, node, error) {
	advice := "remove it, or give another one with --runtime-dir"
	if d.given && path == d.path { // as /etc was
		advice = "give another one with --runtime-dir"
	}
	f, err := openDir(fd(parent), name, unix.O_RDONLY|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, node{}, errGone
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, node{}, fmt.Errorf("runtime directory %s: it is no directory, or a link: %s: %w", path, advice, err)
	case err != nil:
		return nil, node{}, fmt.Errorf("open runtime directory %s: %w: %s", path, err, advice)
	}
	n, err := stat(f)
	if err == nil && n.uid != d.euid {
		err = fmt.Errorf("it belongs to user %d, not to us (user %d): %s", n.uid, d.euid, advice)
	}
	if err != nil {
		_ = f.Close()
		return nil, node{}, fmt.Errorf("runtime directory %s: %w", path, err)
	}
	return f, n, nil
}

// checkNames refuses a directory with another mode than ours that holds something else: it was made for another purpose,
// as /etc/x.d was, and a socket's path happens to fit.
func (d *Dir) checkNames() error {
	list, err := d.dir.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("read runtime directory %s: %w", d.path, err)
	}
	for _, e := range list {
		if !slices.Contains(ours, e.Name()) {
			return fmt.Errorf("runtime directory %s: it holds %q, so it seems to serve another purpose: give another one with --runtime-dir",
				d.path, e.Name())
		}
	}
	return nil
}

// takeLock locks the file of that name. It says errGone if the file or the directory has been removed meanwhile.
func (d *Dir) takeLock() error {
	path := d.path + "/" + lockName
	raw, err := unix.Openat(fd(d.dir), lockName, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.ENOENT) {
		return errGone
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	f := os.NewFile(uintptr(raw), path)
	n, err := stat(f)
	switch {
	case err != nil:
	case n.kind() != unix.S_IFREG || n.uid != d.euid || n.nlink > 1:
		err = errors.New("it is no file of ours: remove it")
	default:
		err = unix.Flock(fd(f), unix.LOCK_EX|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("another daemon uses this directory: give each its own with --runtime-dir")
	}
	if err == nil {
		var there node
		if there, err = statAt(d.dir, lockName); errors.Is(err, unix.ENOENT) || err == nil && !there.same(n) {
			err = errGone
		}
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("lock %s: %w", path, err)
	}
	d.lock = f
	return nil
}

// openDgram makes or checks dgram.
func (d *Dir) openDgram() error {
	path := d.path + "/" + dgramName
	err := unix.Mkdirat(fd(d.dir), dgramName, closedMode)
	created := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", path, err)
	}
	f, n, err := d.openChild(d.dir, dgramName, path)
	if err != nil {
		return err
	}
	// In a directory that was given, one that we did not make may have this name.
	if perm := n.mode & 0o7777; d.given && !created && perm|groupBits != dgramMode && perm != closedMode {
		_ = f.Close()
		return fmt.Errorf("runtime directory %s: its mode is %#o, not %#o: remove it, or give another one with --runtime-dir",
			path, perm, uint32(dgramMode))
	}
	d.dgram = f
	return d.settle(f, path, d.mode(dgramMode))
}

// settle gives a directory of ours the socket's group and the mode.
func (d *Dir) settle(f *os.File, path string, mode uint32) error {
	n, err := stat(f)
	if err == nil && n.mode&0o7777 != mode {
		err = unix.Fchmod(fd(f), closedMode)
	}
	if err == nil {
		err = d.chgrp(n, func(gid int) error { return unix.Fchown(fd(f), -1, gid) })
	}
	if err == nil && n.mode&0o7777 != mode {
		err = unix.Fchmod(fd(f), mode)
	}
	if err == nil {
		n, err = stat(f)
	}
	if err != nil {
		return fmt.Errorf("set group and mode of %s: %w", path, err)
	}
	if n.mode&0o7777 != mode {
		return fmt.Errorf("set mode of %s: it is %#o, not %#o: its file system has modes of its own, give another directory with --runtime-dir",
			path, n.mode&0o7777, mode)
	}
	return nil
}

// chgrp calls set with the socket's group, unless n has it. Where the default group cannot be had, the daemon's own takes
// its place, as it does for SOCKET.
func (d *Dir) chgrp(n node, set func(gid int) error) error {
	if d.owner.GID >= 0 {
		if n.gid == uint32(d.owner.GID) {
			return nil
		}
		err := set(d.owner.GID)
		if err == nil || d.owner.MustGroup || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) { // EINVAL: none such in this user namespace
			return err
		}
		d.owner.GID = -1
	}
	if gid := os.Getegid(); n.gid != uint32(gid) {
		return set(gid)
	}
	return nil
}

// removeDirs removes what is empty.
func (d *Dir) removeDirs() {
	if d.lock != nil { // else dgram may be another daemon's
		if d.dgram != nil {
			d.removeDir(d.dir, d.dgram, dgramName)
		}
		// Whoever opens the directory from here on makes a lock of his own, and then it is not empty.
		if err := unix.Unlinkat(fd(d.dir), lockName, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn("cannot remove the lock of the runtime directory", "path", d.path+"/"+lockName, "error", err)
		}
	}
	if d.dir != nil && (d.created || d.lock != nil && d.own()) {
		d.removeDir(d.parent, d.dir, d.base)
	}
}

// removeDir removes the directory f if it is still name in parent, and empty.
func (d *Dir) removeDir(parent, f *os.File, name string) {
	there, err := statAt(parent, name)
	if err == nil {
		var mine node
		if mine, err = stat(f); err == nil && !there.same(mine) {
			return // somebody put another one in its place
		}
	}
	if err == nil {
		err = unix.Unlinkat(fd(parent), name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
	default:
		d.log.Warn("cannot remove the runtime directory", "path", d.path, "directory", name, "error", err)
	}
}
