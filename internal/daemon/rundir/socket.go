// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
)

// A bound is a socket that was made.
type bound struct {
	Name string `json:"name"` // below the directory, such as dgram/sock
	Told string `json:"told"` // what the system tells others as its name
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
}

// Listen makes the stream socket name in the directory. A stale one is removed; what is no socket of ours is an error and
// stays. The socket is bound with no access for others, given to the group, unless it is for root and our own user alone, and only then
// made to listen. The umask of the process is changed for a moment. The caller owns the listener, whose Close leaves the path alone: that
// is for Remove.
func (d *Dir) Listen(name string, private bool) (*net.UnixListener, error) {
	mode := d.mode(socketMode)
	if private {
		mode = privateMode
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f, b, err := d.make(name, unix.SOCK_STREAM, mode)
	if err != nil {
		return nil, err
	}
	d.Bound = append(d.Bound, b)
	defer func() { _ = f.Close() }() // the listener has a duplicate
	ln, err := hostfs.Listen(f)
	if err != nil {
		return nil, fmt.Errorf("listen on %s/%s: %w", d.Path, name, err)
	}
	return ln, nil
}

// ListenDatagram makes dgram/sock, in place of the one that is there: the path is not absent for a moment. Clients may have left
// a socket of theirs there while no daemon ran: it is removed, as it lies in our directory; anything else is an error and stays.
// The socket is made in the directory, where only we can write, and then moved. The caller owns it, and its Close leaves the path
// alone.
func (d *Dir) ListenDatagram() (*net.UnixConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, b, err := d.make(newName, unix.SOCK_DGRAM, d.mode(socketMode))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the connection has a duplicate
	if err = d.stale(sockName); err == nil {
		if err = unix.Renameat(int(d.dir.Fd()), newName, int(d.dir.Fd()), sockName); err != nil {
			err = fmt.Errorf("move %s/%s to %s: %w", d.Path, newName, sockName, err)
		}
	}
	if err != nil {
		d.removeSocket(b)
		return nil, err
	}
	d.Bound = slices.DeleteFunc(d.Bound, func(b bound) bool { return b.Name == sockName })
	b.Name = sockName
	d.Bound = append(d.Bound, b)
	c, err := hostfs.Socket[*net.UnixConn](f)
	if err != nil {
		return nil, fmt.Errorf("use %s/%s: %w", d.Path, b.Name, err)
	}
	return c, nil
}

// make binds a socket of the kind to name and gives it the group and the mode.
func (d *Dir) make(name string, kind int, mode uint32) (*os.File, bound, error) {
	where := d.Path + "/" + name
	if d.removed {
		return nil, bound{}, fmt.Errorf("make socket %s: %w", where, net.ErrClosed)
	}
	if err := d.stale(name); err != nil {
		return nil, bound{}, err
	}
	if err := unix.Unlinkat(int(d.dir.Fd()), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, bound{}, fmt.Errorf("remove the stale socket %s: %w", where, err)
	}
	raw, err := hostfs.NewSocket(kind)
	if err != nil {
		return nil, bound{}, fmt.Errorf("make socket %s: %w", where, err)
	}
	f, b := os.NewFile(uintptr(raw), where), bound{Name: name}
	if err = prepare(f, kind); err == nil {
		b.Told, err = d.pathOf(name)
	}
	if err == nil {
		err = hostfs.BindPrivate(raw, b.Told)
	}
	if err == nil {
		err = d.take(&b, mode)
	}
	if err != nil {
		_ = f.Close()
		return nil, b, fmt.Errorf("make socket %s: %w", where, err)
	}
	return f, b, nil
}

// stale checks that there is nothing at a name but a socket that may be replaced.
func (d *Dir) stale(name string) error {
	where := d.Path + "/" + name
	n, err := hostfs.Place{Dir: d.dir, Name: name}.Node()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("stat %s: %w", where, err)
	case n.Kind() != unix.S_IFSOCK:
		return fmt.Errorf("make socket %s: something is there that is not a socket: remove it", where)
	case int(n.UID) != os.Geteuid() && name != sockName:
		return fmt.Errorf("make socket %s: there is one of user %d, not ours (user %d): remove it", where, n.UID, os.Geteuid())
	}
	return nil
}

// take checks that the socket that has appeared is ours, and gives it to the group, with the mode. Nothing was there before, and
// only we can make something there; still it is looked at, since a path that was bound may have been led elsewhere.
func (d *Dir) take(b *bound, mode uint32) error {
	at := hostfs.Place{Dir: d.dir, Name: b.Name}
	n, err := at.Node()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !fresh(n) {
		return fmt.Errorf("%s does not lead to the directory that was checked: it is being moved", d.Path)
	}
	if err != nil {
		return err
	}
	b.Dev, b.Ino = n.Dev, n.Ino
	_, err = d.Owner.Give(func(_, gid int) error {
		_, err := at.Give(n, -1, gid, mode)
		return err
	})
	if err != nil {
		d.removeSocket(*b)
		return fmt.Errorf("set group and mode: %w", err)
	}
	return nil
}

// removeSocket removes b unless another file has taken its place.
func (d *Dir) removeSocket(b bound) {
	at := hostfs.Place{Dir: d.dir, Name: b.Name}
	if err := at.Remove(hostfs.Node{Dev: b.Dev, Ino: b.Ino}); err != nil {
		d.log.Warn("cannot remove the socket", "path", d.Path+"/"+b.Name, "error", err)
	}
}
