// SPDX-License-Identifier: Apache-2.0

// Package rundir keeps the directory of the daemon's sockets beside SOCKET.
//
//	SOCKET.d/          0750, the socket's group: attach, adopt, control; and control.root, 0600
//	SOCKET.d/lock      0600, locked for life: two daemons may have been given one directory
//	SOCKET.d/dgram/    1770, the socket's group: sock, and what clients bind beside it
//
// All of it belongs to the daemon's user. Members of its group that the socket's mode keeps out are kept out here as
// well; users that it lets in as the socket's owner or as others are not let in.
//
// SOCKET's parent may be writable by others, and so is dgram. So everything is done through descriptors of directories
// that have been checked, and no link is followed: a directory that is moved away meanwhile is of no use, and what is put in its
// place is not touched.
package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
)

// Modes, if members of the socket's group may use it. Else the group has no access.
const (
	dirMode     = 0o750
	dgramMode   = 0o1770 // sticky: users remove only their own sockets
	socketMode  = 0o770
	groupBits   = 0o070
	privateMode = 0o600 // of a socket for root and us alone
	closedMode  = 0o700 // of a directory that is being made
)

const (
	suffix    = ".d" // of SOCKET.d
	lockName  = "lock"
	dgramName = "dgram"
	sockName  = dgramName + "/sock"
	newName   = "dgram.new" // of that until it has its path
)

// ErrNone is returned by Open when there shall be no directory: "none" was asked for (the error is ErrNone itself), or
// SOCKET's parent belongs to another user (the error wraps ErrNone and says what to do).
var ErrNone = errors.New("no runtime directory")

// Options are what Open needs.
type Options struct {
	Socket string       // path of SOCKET, whose lock the caller holds
	Dir    string       // --runtime-dir: empty for SOCKET.d, compat.RuntimeDirNone, or a path
	Owner  compat.Owner // of SOCKET: GID, MustGroup and Mode count
	Log    *slog.Logger
}

// A record is what the next image of the daemon needs to know of a Dir.
type record struct {
	Path    string       `json:"path"`
	Given   bool         `json:"given"`   // by --runtime-dir
	Created bool         `json:"created"` // the directory, by us
	Dgram   bool         `json:"dgram"`   // dgram is ours
	Owner   compat.Owner `json:"owner"`
	Bound   []bound      `json:"bound"`
}

// A Dir is the directory, from Open to Remove. Remove may be called at any time; all else is for one goroutine.
type Dir struct {
	record
	log *slog.Logger

	parent, dir, lock *os.File

	mu      sync.Mutex
	removed bool
}

// Open makes the directory, or checks the one that is there, and dgram in it. A SOCKET.d of our own with another mode or
// group is repaired; a directory that was given with --runtime-dir and exists is left as it is, and must be one that only
// we can write in. An error means that there is no directory; its text tells why and what to do, and nothing is left
// behind. Errors that are not ErrNone deserve a warning.
func Open(o Options) (*Dir, error) {
	path := PathOf(o.Socket, o.Dir)
	if path == "" {
		return nil, ErrNone
	}
	if n := len(path) + len(compat.LongestRuntimePath); n > compat.MaxSocketPath {
		return nil, fmt.Errorf("%s%s has %d bytes, the path of a socket %d at most: use a shorter path for the socket, or --runtime-dir",
			path, compat.LongestRuntimePath, n, compat.MaxSocketPath)
	}
	d := &Dir{record: record{Path: path, Given: o.Dir != "", Owner: o.Owner}, log: o.Log}
	for _, step := range []func() error{d.openParent, d.openOwn, d.takeLock, d.openDgram} {
		if err := step(); err != nil {
			d.Remove()
			return nil, err
		}
	}
	return d, nil
}

// own tells whether the directory exists for our sockets only, so that its mode is ours to set and it goes when it is
// empty.
func (d *Dir) own() bool { return !d.Given || d.Created }

// mode is what is left of m where the socket's group is kept out.
func (d *Dir) mode(m uint32) uint32 {
	if d.Owner.Mode&0o020 == 0 { // connecting is writing
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
	for _, b := range d.Bound {
		p := d.Path + "/" + b.Name
		paths = append(paths, p)
		if b.Told != p {
			paths = append(paths, b.Told)
		}
	}
	return paths
}

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
	for _, b := range d.Bound {
		d.removeSocket(b)
	}
	d.Bound = nil
	d.removeDirs()
	d.close()
}

// close lets go of what is open.
func (d *Dir) close() {
	for _, f := range d.files() {
		if *f != nil {
			_ = (*f).Close()
		}
	}
}

func (d *Dir) files() [3]**os.File { return [3]**os.File{&d.parent, &d.dir, &d.lock} }

// Saved is a Dir on its way to the next image of the daemon.
type Saved struct {
	record
	FDs [3]int `json:"fds"` // of files
}

// Save notes what the next image needs: the directories and their lock, and which sockets were made in them. The sockets
// themselves are for what has them. d stays as it is.
func (d *Dir) Save(o *handover.Out) (Saved, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return Saved{}, fmt.Errorf("hand over the runtime directory %s: %w", d.Path, net.ErrClosed)
	}
	s := Saved{record: d.record}
	for i, f := range d.files() {
		s.FDs[i] = o.Conn(*f)
	}
	return s, nil
}

// Restore takes the directory over. More sockets can be made in it. After an error nothing of it is held, and what is in
// the file system stays.
func Restore(in *handover.In, s Saved, log *slog.Logger) (*Dir, error) {
	d := &Dir{record: s.record, log: log}
	for i, f := range d.files() {
		var err error
		if *f, err = in.File(s.FDs[i]); err != nil {
			d.close()
			return nil, fmt.Errorf("take over the runtime directory %s: %w", s.Path, err)
		}
	}
	return d, nil
}

// PathOf is the absolute path of the directory beside socket, where dir is --runtime-dir. It is empty when there shall be none. Nothing is
// looked at.
func PathOf(socket, dir string) string {
	if dir == compat.RuntimeDirNone {
		return ""
	}
	path := cmp.Or(dir, socket+suffix)
	if abs, err := filepath.Abs(path); err == nil { // else the working directory is gone, and a relative path leads nowhere
		return abs
	}
	return path
}
