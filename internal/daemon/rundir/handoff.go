// SPDX-License-Identifier: Apache-2.0

package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
)

// Saved is a Dir on its way to the next image of the daemon. Paths are as they were given, descriptors are plain numbers.
type Saved struct {
	Path    string        `json:"path"`
	Abs     string        `json:"abs"`
	Given   bool          `json:"given"`
	Created bool          `json:"created"`
	Owner   compat.Owner  `json:"owner"`
	Parent  int           `json:"parent"`
	Dir     int           `json:"dir"`
	Dgram   int           `json:"dgram"`
	Lock    int           `json:"lock"`
	Bound   []savedSocket `json:"bound"`
}

// A savedSocket is a socket that was made.
type savedSocket struct {
	Name  string `json:"name"`
	Told  string `json:"told"`
	Dgram bool   `json:"dgram"` // it is in dgram
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
}

// Save notes what the next image needs: the directories and their lock, and which sockets were made in them. The sockets
// themselves are for those who have them. d stays as it is.
func (d *Dir) Save(o *handover.Out) (Saved, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return Saved{}, fmt.Errorf("hand over the runtime directory %s: %w", d.path, net.ErrClosed)
	}
	s := Saved{Path: d.path, Abs: d.abs, Given: d.given, Created: d.created, Owner: d.owner}
	for _, h := range []struct {
		f  *os.File
		to *int
	}{{d.parent, &s.Parent}, {d.dir, &s.Dir}, {d.dgram, &s.Dgram}, {d.lock, &s.Lock}} {
		*h.to = o.FD(fd(h.f))
	}
	for _, b := range d.bound {
		s.Bound = append(s.Bound, savedSocket{Name: b.name, Told: b.told, Dgram: b.dir == d.dgram, Dev: b.node.dev, Ino: b.node.ino})
	}
	return s, nil
}

// Restore takes the directory over. More sockets can be made in it. After an error nothing of it is held, and what is in
// the file system stays.
func Restore(in *handover.In, s Saved, log *slog.Logger) (*Dir, error) {
	d := &Dir{
		path: s.Path, abs: s.Abs, given: s.Given, created: s.Created, owner: s.Owner,
		euid: uint32(os.Geteuid()), log: log,
	}
	_, d.base = split(s.Path)
	err := d.takeOver(in, s)
	if err != nil {
		for _, f := range []*os.File{d.lock, d.dgram, d.dir, d.parent} {
			if f != nil {
				_ = f.Close()
			}
		}
		return nil, fmt.Errorf("take over the runtime directory %s: %w", s.Path, err)
	}
	for _, b := range s.Bound {
		dir := d.dir
		if b.Dgram {
			dir = d.dgram
		}
		d.bound = append(d.bound, bound{dir: dir, name: b.Name, told: b.Told, node: node{dev: b.Dev, ino: b.Ino}})
	}
	return d, nil
}

// takeOver fills in the descriptors.
func (d *Dir) takeOver(in *handover.In, s Saved) (err error) {
	for _, h := range []struct {
		fd int
		to **os.File
	}{{s.Parent, &d.parent}, {s.Dir, &d.dir}, {s.Dgram, &d.dgram}, {s.Lock, &d.lock}} {
		if *h.to, err = in.File(h.fd); err != nil {
			return err
		}
	}
	for _, f := range []*os.File{d.parent, d.dir, d.dgram} {
		n, err := stat(f)
		if err != nil {
			return err
		}
		if n.kind() != unix.S_IFDIR {
			return errors.New("a descriptor is no directory")
		}
	}
	return unix.Flock(fd(d.lock), unix.LOCK_EX|unix.LOCK_NB)
}
