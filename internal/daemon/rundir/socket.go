// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// backlog asks for the system's maximum: both kernels cut it down to kern.ipc.somaxconn or net.core.somaxconn.
const backlog = 1<<16 - 1

// A bound is a socket that was made.
type bound struct {
	dir  *os.File
	name string // below the directory, such as dgram/sock
	told string // what the system tells others as its name
	node node
}

// Listen makes the stream socket name in the directory. A stale one is removed; what is no socket of ours is an error and
// stays. The socket is bound with no access for others, given to the group and only then made to listen. The umask of the
// process is changed for a moment. The caller owns the listener, whose Close leaves the path alone: that is for Remove.
func (d *Dir) Listen(name string) (*net.UnixListener, error) {
	return d.listen(name, d.mode(socketMode))
}

// ListenPrivate is Listen for a socket that only root and our own user can connect to.
func (d *Dir) ListenPrivate(name string) (*net.UnixListener, error) {
	return d.listen(name, privateMode)
}

func (d *Dir) listen(name string, mode uint32) (*net.UnixListener, error) {
	f, err := d.make(d.dir, name, unix.SOCK_STREAM, mode)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the listener has a duplicate
	err = unix.Listen(fd(f), backlog)
	var ln net.Listener
	if err == nil {
		ln, err = net.FileListener(f)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s/%s: %w", d.path, name, err)
	}
	ul, ok := ln.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listen on %s/%s: %w", d.path, name, syscall.ENOTSOCK), ln.Close())
	}
	ul.SetUnlinkOnClose(false)
	return ul, nil
}

// ListenDatagram makes dgram/sock, in place of the one that is there: the path is not absent for a moment. Clients may have left
// a socket of theirs there while no daemon ran: it is removed, as it lies in our directory; anything else is an error and stays.
// The socket is made in the directory, where only we can write, and then moved. The caller owns it, and its Close leaves the path
// alone.
func (d *Dir) ListenDatagram() (*net.UnixConn, error) {
	f, err := d.make(d.dir, newName, unix.SOCK_DGRAM, d.mode(socketMode))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the connection has a duplicate
	if err := d.moveIn(); err != nil {
		return nil, err
	}
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("use %s/%s/%s: %w", d.path, dgramName, sockName, err)
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("use %s/%s/%s: %w", d.path, dgramName, sockName, syscall.ENOTSOCK), c.Close())
	}
	return uc, nil
}

// moveIn gives the socket newName, which was just made, the path dgram/sock.
func (d *Dir) moveIn() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return fmt.Errorf("make socket %s/%s/%s: %w", d.path, dgramName, sockName, net.ErrClosed)
	}
	at := slices.IndexFunc(d.bound, func(b bound) bool { return b.name == newName })
	b := d.bound[at]
	d.bound = slices.Delete(d.bound, at, at+1)
	err := d.stale(d.dgram, dgramName+"/"+sockName)
	if err == nil {
		if err = unix.Renameat(fd(d.dir), newName, fd(d.dgram), sockName); err != nil {
			err = fmt.Errorf("move %s/%s to %s/%s: %w", d.path, newName, dgramName, sockName, err)
		}
	}
	if err != nil {
		d.removeSocket(b)
		return err
	}
	d.bound = slices.DeleteFunc(d.bound, func(b bound) bool { return b.dir == d.dgram })
	b.dir, b.name = d.dgram, dgramName+"/"+sockName
	d.bound = append(d.bound, b)
	return nil
}

// make binds a socket of the kind to name, whose last element is in dir, and gives it the mode.
func (d *Dir) make(dir *os.File, name string, kind int, mode uint32) (*os.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	where := d.path + "/" + name
	if d.removed {
		return nil, fmt.Errorf("make socket %s: %w", where, net.ErrClosed)
	}
	if err := d.clear(dir, name); err != nil {
		return nil, err
	}
	raw, err := newSocket(kind)
	if err != nil {
		return nil, fmt.Errorf("make socket %s: %w", where, err)
	}
	f := os.NewFile(uintptr(raw), where)
	if err = prepare(f, kind); err == nil {
		var told string
		if told, err = d.bind(f, dir, name); err == nil {
			err = d.take(dir, name, told, mode)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("make socket %s: %w", where, err)
	}
	return f, nil
}

// clear removes a stale socket.
func (d *Dir) clear(dir *os.File, name string) error {
	if err := d.stale(dir, name); err != nil {
		return err
	}
	if err := unix.Unlinkat(fd(dir), path.Base(name), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket %s/%s: %w", d.path, name, err)
	}
	return nil
}

// stale checks that there is nothing at name but a socket that may be replaced.
func (d *Dir) stale(dir *os.File, name string) error {
	where := d.path + "/" + name
	n, err := statAt(dir, path.Base(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("stat %s: %w", where, err)
	case n.kind() != unix.S_IFSOCK:
		return fmt.Errorf("make socket %s: there is something that is no socket: remove it", where)
	case n.uid != d.euid && dir != d.dgram:
		return fmt.Errorf("make socket %s: there is one of user %d, not ours (user %d): remove it", where, n.uid, d.euid)
	}
	return nil
}

// take checks that the socket that has appeared in dir is ours, and gives it to the group, with the mode. Nothing was there before, and
// only we can make something there; still it is looked at, since where bind followed a path, somebody may have led it
// elsewhere.
func (d *Dir) take(dir *os.File, name, told string, mode uint32) error {
	n, err := statAt(dir, path.Base(name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !d.fresh(n) {
		return fmt.Errorf("%s does not lead to the directory that was checked: somebody moves it", d.path)
	}
	if err != nil {
		return err
	}
	b := bound{dir: dir, name: name, told: told, node: n}
	if err := d.give(b, mode); err != nil {
		d.removeSocket(b)
		return fmt.Errorf("set group and mode: %w", err)
	}
	d.bound = append(d.bound, b)
	return nil
}

// removeSocket removes b unless another file has taken its place.
func (d *Dir) removeSocket(b bound) {
	n, err := statAt(b.dir, path.Base(b.name))
	if err == nil && n.same(b.node) {
		err = unix.Unlinkat(fd(b.dir), path.Base(b.name), 0)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.log.Warn("cannot remove the socket", "path", d.path+"/"+b.name, "error", err)
	}
}

// newSocket makes a socket that children do not inherit.
func newSocket(kind int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	s, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err == nil {
		unix.CloseOnExec(s)
	}
	return s, err
}
