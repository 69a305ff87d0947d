// SPDX-License-Identifier: Apache-2.0

// Package rundir keeps the directory of the daemon's sockets beside SOCKET.
//
//	SOCKET.d/          0750, the socket's group: attach, adopt, control; and control.root, 0600
//	SOCKET.d/lock      0600, locked for life: two daemons may have been given one directory
//	SOCKET.d/dgram/    1770, the socket's group: sock, and what clients bind beside it
//
// All of it belongs to the daemon's user. Whoever the socket's mode keeps out as a member of its group is kept out here as
// well; those whom it lets in as the socket's owner or as anybody are not let in.
//
// SOCKET's parent may be writable by others, and so is dgram. So everything is done through descriptors of directories
// that have been checked, and no link is followed: whoever moves a directory away meanwhile gets one that is of no use,
// and what he puts in its place is not touched.
package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
)

// Modes, if members of the socket's group may use it. Else the group has no access.
const (
	dirMode     = 0o750
	dgramMode   = 0o1770 // sticky: nobody removes another one's socket
	socketMode  = 0o770
	groupBits   = 0o070
	privateMode = 0o600 // of a socket for root and us alone
	closedMode  = 0o700 // of a directory that is being made
)

const (
	suffix    = ".d" // of SOCKET.d
	lockName  = "lock"
	dgramName = "dgram"
	sockName  = "sock"
	newName   = "dgram.new" // of that until it has its path
)

// ErrNone is returned by Open when there shall be no directory: "none" was asked for (the error is ErrNone itself), or
// SOCKET's parent belongs to somebody else (the error wraps ErrNone and says what to do).
var ErrNone = errors.New("no runtime directory")

// Options are what Open needs.
type Options struct {
	Socket string       // path of SOCKET, whose lock the caller holds
	Dir    string       // --runtime-dir: empty for SOCKET.d, compat.RuntimeDirNone, or a path
	Owner  compat.Owner // of SOCKET: GID, MustGroup and Mode count
	Log    *slog.Logger
}

// A Dir is the directory, from Open to Remove. Remove may be called at any time; all else is for one goroutine.
type Dir struct {
	path  string // as it was given
	abs   string
	base  string // last element of path, within parent
	given bool   // by --runtime-dir
	euid  uint32
	owner compat.Owner
	log   *slog.Logger

	parent, dir, dgram, lock *os.File

	mu      sync.Mutex
	created bool // the directory, by us
	bound   []bound
	removed bool
}

// Open makes the directory, or checks the one that is there, and dgram in it. A SOCKET.d of our own with another mode or
// group is repaired; a directory that was given with --runtime-dir and exists is left as it is, and must be one that only
// we can write in. An error means that there is no directory; its text tells why and what to do, and nothing is left
// behind. Errors that are not ErrNone deserve a warning.
func Open(o Options) (*Dir, error) {
	if o.Dir == compat.RuntimeDirNone {
		return nil, ErrNone
	}
	d := &Dir{path: o.Dir, given: o.Dir != "", euid: uint32(os.Geteuid()), owner: o.Owner, log: o.Log}
	if !d.given {
		d.path = o.Socket + suffix
	}
	d.path = d.path[:1] + strings.TrimRight(d.path[1:], "/")
	if n := len(d.path) + len(compat.LongestRuntimePath); n > compat.MaxSocketPath {
		return nil, fmt.Errorf("%s%s has %d bytes, the path of a socket %d at most: use a shorter path for the socket, or --runtime-dir",
			d.path, compat.LongestRuntimePath, n, compat.MaxSocketPath)
	}
	var err error
	if d.abs, err = filepath.Abs(d.path); err != nil {
		return nil, fmt.Errorf("runtime directory %s: %w", d.path, err)
	}
	if err := d.openParent(); err != nil {
		return nil, err
	}
	// Whoever has used the directory so far may be about to remove it.
	for range 5 {
		if err = d.open(); !errors.Is(err, errGone) {
			break
		}
	}
	if err != nil {
		d.Remove()
		return nil, err
	}
	return d, nil
}

// openParent opens what the directory is in, and asks whose it is.
func (d *Dir) openParent() error {
	var parent string
	parent, d.base = split(d.path)
	f, err := openDir(unix.AT_FDCWD, parent, parentFlags)
	if err != nil {
		return fmt.Errorf("runtime directory %s: open %s: %w", d.path, parent, err)
	}
	d.parent = f
	n, err := stat(f)
	switch {
	case err != nil:
		err = fmt.Errorf("runtime directory %s: stat %s: %w", d.path, parent, err)
	case !d.given && n.uid != 0 && n.uid != d.euid:
		err = fmt.Errorf("%w: %s belongs to user %d, neither to root nor to us (user %d): --runtime-dir=DIR makes one elsewhere",
			ErrNone, strings.TrimRight(parent, "/"), n.uid, d.euid)
	}
	if err != nil {
		_ = f.Close()
	}
	return err
}

// split takes the last element off path, which does not end in a slash but for the root. One that is no name stands for a
// directory that is there, in itself.
func split(path string) (parent, base string) {
	i := strings.LastIndexByte(path, '/')
	parent, base = path[:i+1], path[i+1:]
	switch base {
	case "":
		return path, "."
	case ".", "..":
		return path, "."
	}
	if parent == "" {
		parent = "."
	}
	return parent, base
}

// open goes on in the parent. It may be called again after an error.
func (d *Dir) open() error {
	for _, f := range []*os.File{d.dir, d.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
	d.dir, d.lock = nil, nil
	if err := d.openOwn(); err != nil {
		return err
	}
	if err := d.takeLock(); err != nil {
		return err
	}
	if d.own() {
		if err := d.settle(d.dir, d.path, d.mode(dirMode)); err != nil {
			return err
		}
	}
	return d.openDgram()
}

// own tells whether the directory exists for our sockets only, so that its mode is ours to set and it goes when it is
// empty.
func (d *Dir) own() bool { return !d.given || d.created }

// mode is what is left of m where the socket's group is kept out.
func (d *Dir) mode(m uint32) uint32 {
	if d.owner.Mode&0o020 == 0 { // connecting is writing
		m &^= groupBits
	}
	return m
}

// Paths are the names of the sockets that were made and not removed: the absolute path of each and, where it is another
// one, the name that the system tells those that are connected to it.
func (d *Dir) Paths() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var paths []string
	for _, b := range d.bound {
		p := d.abs + "/" + b.name
		paths = append(paths, p)
		if b.told != p {
			paths = append(paths, b.told)
		}
	}
	return paths
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.abs }

// Remove removes the sockets that are still ours, then dgram and the directory if they are empty: clients leave sockets of
// theirs in dgram. A directory that was there when it was given with --runtime-dir stays. It is idempotent and safe for
// concurrent use; the sockets stay open.
func (d *Dir) Remove() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return
	}
	d.removed = true
	for _, b := range d.bound {
		d.removeSocket(b)
	}
	d.bound = nil
	d.removeDirs()
	for _, f := range []*os.File{d.lock, d.dgram, d.dir, d.parent} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// PathOf is the absolute path of the directory beside socket, itself an absolute path, where dir is --runtime-dir. It is empty
// when there shall be none. Nothing is looked at.
func PathOf(socket, dir string) string {
	switch dir {
	case compat.RuntimeDirNone:
		return ""
	case "":
		return socket + suffix
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	return abs
}
