// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// ours are the names that this program uses in the directory, in any version.
var ours = []string{"attach", "adopt", "control", "control.root", dgramName, newName, lockName}

// openParent opens what the directory is in, and asks whose it is.
func (d *Dir) openParent() (err error) {
	parent := filepath.Dir(d.Path)
	if d.parent, err = os.OpenFile(parent, parentFlags|unix.O_DIRECTORY, 0); err != nil {
		return fmt.Errorf("runtime directory %s: %w", d.Path, err)
	}
	n, err := hostfs.NodeOf(d.parent)
	switch euid := os.Geteuid(); {
	case err != nil:
		return fmt.Errorf("runtime directory %s: stat %s: %w", d.Path, parent, err)
	case !d.Given && n.UID != 0 && int(n.UID) != euid:
		return fmt.Errorf("%w: %s belongs to user %d, neither to root nor to us (user %d): --runtime-dir=DIR makes one elsewhere",
			ErrNone, parent, n.UID, euid)
	}
	return nil
}

// openOwn makes the directory or opens the one that is there, and checks whose it is.
func (d *Dir) openOwn() (err error) {
	var n hostfs.Node
	if d.dir, n, d.Created, err = d.openChild(d.parent, filepath.Base(d.Path), d.Path); err != nil {
		return err
	}
	perm := n.Mode & 0o7777
	switch {
	case d.Created:
	case d.own():
		if perm != d.mode(dirMode) {
			return d.checkNames()
		}
	case perm&0o022 != 0:
		return fmt.Errorf("runtime directory %s: others may write in it (mode %#o): chmod go-w %s, or give another one with --runtime-dir",
			d.Path, perm, d.Path)
	}
	return nil
}

// openChild makes the directory name in parent, or opens the one that is there, which must be ours. path is its name in messages.
func (d *Dir) openChild(parent *os.File, name, path string) (f *os.File, n hostfs.Node, created bool, err error) {
	advice := "remove it, or give another one with --runtime-dir"
	if d.Given && path == d.Path { // as /etc was
		advice = "give another one with --runtime-dir"
	}
	err = unix.Mkdirat(int(parent.Fd()), name, closedMode)
	if created = err == nil; !created && !errors.Is(err, unix.EEXIST) {
		return nil, n, false, fmt.Errorf("make runtime directory %s: %w", path, err)
	}
	f, err = hostfs.Place{Dir: parent, Name: name}.Open(unix.O_RDONLY | unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, n, created, fmt.Errorf("runtime directory %s: it is not a directory, or it is a link: %s: %w", path, advice, err)
	case err != nil:
		return nil, n, created, fmt.Errorf("open runtime directory %s: %w: %s", path, err, advice)
	}
	n, err = hostfs.NodeOf(f)
	if euid := os.Geteuid(); err == nil && int(n.UID) != euid {
		err = fmt.Errorf("it belongs to user %d, not to us (user %d): %s", n.UID, euid, advice)
	}
	if err != nil {
		_ = f.Close()
		return nil, n, created, fmt.Errorf("runtime directory %s: %w", path, err)
	}
	return f, n, created, nil
}

// checkNames refuses a directory with another mode than ours that holds something else: it was made for another purpose,
// as /etc/x.d was, and a socket's path happens to fit.
func (d *Dir) checkNames() error {
	list, err := d.dir.ReadDir(-1)
	if err != nil {
		return fmt.Errorf("read runtime directory %s: %w", d.Path, err)
	}
	for _, e := range list {
		if !slices.Contains(ours, e.Name()) {
			return fmt.Errorf("runtime directory %s: it holds %q, so it seems to serve another purpose: give another one with --runtime-dir",
				d.Path, e.Name())
		}
	}
	return nil
}

// takeLock locks the directory for us, and gives it its group and mode where they are ours to set.
func (d *Dir) takeLock() (err error) {
	d.lock, err = hostfs.Place{Dir: d.dir, Name: lockName}.Lock(unix.O_CREAT, func(n hostfs.Node) error {
		if n.Kind() != unix.S_IFREG || int(n.UID) != os.Geteuid() || n.Nlink > 1 {
			return errors.New("it is not a file of ours: remove it")
		}
		return nil
	})
	if errors.Is(err, unix.EAGAIN) {
		err = errors.New("another daemon uses this directory: give each its own with --runtime-dir")
	}
	if err != nil {
		return fmt.Errorf("lock %s/%s: %w", d.Path, lockName, err)
	}
	if !d.own() {
		return nil
	}
	return d.settle(d.dir, d.Path, d.mode(dirMode))
}

// openDgram makes or checks dgram.
func (d *Dir) openDgram() error {
	path := d.Path + "/" + dgramName
	f, n, created, err := d.openChild(d.dir, dgramName, path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	// In a directory that was given, one that we did not make may have this name.
	if perm := n.Mode & 0o7777; d.Given && !created && perm|groupBits != dgramMode && perm != closedMode {
		return fmt.Errorf("runtime directory %s: its mode is %#o, not %#o: remove it, or give another one with --runtime-dir",
			path, perm, uint32(dgramMode))
	}
	d.Dgram = true
	return d.settle(f, path, d.mode(dgramMode))
}

// settle gives a directory of ours the socket's group and the mode. It is closed meanwhile.
func (d *Dir) settle(f *os.File, path string, mode uint32) error {
	fd := int(f.Fd())
	err := unix.Fchmod(fd, closedMode)
	if err == nil {
		_, err = d.Owner.Give(func(_, gid int) error { return unix.Fchown(fd, -1, gid) })
	}
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	var n hostfs.Node
	if err == nil {
		n, err = hostfs.NodeOf(f)
	}
	if err != nil {
		return fmt.Errorf("set group and mode of %s: %w", path, err)
	}
	if n.Mode&0o7777 != mode {
		return fmt.Errorf("set mode of %s: it is %#o, not %#o: its file system has modes of its own, give another directory with --runtime-dir",
			path, n.Mode&0o7777, mode)
	}
	return nil
}

// removeDirs removes what is empty. Others cannot put a directory in the place of dgram, but may in that of ours.
func (d *Dir) removeDirs() {
	if d.Dgram {
		d.complain(dgramName, unix.Unlinkat(int(d.dir.Fd()), dgramName, unix.AT_REMOVEDIR))
	}
	if d.lock != nil {
		// A daemon that opens the directory from here on makes a lock of its own, and then it is not empty.
		d.complain(lockName, unix.Unlinkat(int(d.dir.Fd()), lockName, 0))
	}
	if d.dir == nil || !d.Created && (d.lock == nil || !d.own()) {
		return
	}
	name := filepath.Base(d.Path)
	ours, err := hostfs.Place{Dir: d.parent, Name: name}.Holds(d.dir)
	if err == nil && ours {
		err = unix.Unlinkat(int(d.parent.Fd()), name, unix.AT_REMOVEDIR)
	}
	d.complain(name, err)
}

// complain logs why something was not removed, unless that is in order.
func (d *Dir) complain(name string, err error) {
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
	default:
		d.log.Warn("cannot remove a part of the runtime directory", "path", d.Path, "name", name, "error", err)
	}
}
