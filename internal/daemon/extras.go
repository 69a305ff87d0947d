// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/hostfs"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// extras are the sockets beside SOCKET: for datagram clients, and to pass descriptors in either direction. The daemon does
// its work without them.
type extras struct {
	d       *daemon
	dir     *rundir.Dir
	passing *passfd.Server
	shared  *dgram.Server
	last    []string // paths of datagram clients of the last process, which are yet to be invited
	running sync.WaitGroup
}

// openExtras opens them, with those that were given and what the image before hands over, v, which is nil if there is none of it. That
// they cannot be served, which the log tells, is an error only at a start that was given one of them.
func (d *daemon) openExtras(in *handover.In, v *savedExtras) error {
	e := &extras{d: d}
	err := e.open(in, v)
	if err == nil {
		d.extras = e
		return nil
	}
	e.close(context.Background())
	for _, name := range []string{inherit.Attach, inherit.Adopt} {
		if ln := d.unix(name); ln != nil {
			_ = ln.Close()
			delete(d.listeners, name)
		}
	}
	switch {
	case in == nil && d.given.Has(inherit.Attach, inherit.Adopt, inherit.Dgram, inherit.Control):
		return fmt.Errorf("sockets beside the socket were given and cannot be served: %w", err)
	case errors.Is(err, rundir.ErrNone):
		level := slog.LevelInfo
		if d.cfg.RuntimeDir == compat.RuntimeDirNone { // that is what was asked for
			level = slog.LevelDebug
		}
		d.log.Log(context.Background(), level, "no sockets for datagram clients and passed descriptors", "reason", err)
	default:
		d.log.Warn("datagram clients and passed descriptors are not served, stream clients are", "error", err)
	}
	return nil
}

// open binds the sockets. What it has opened is closed by close, also after an error.
func (e *extras) open(in *handover.In, v *savedExtras) (err error) {
	d := e.d
	if v != nil {
		e.dir, err = rundir.Restore(in, v.Dir, d.log)
	} else {
		e.dir, err = rundir.Open(rundir.Options{Socket: absolute(d.cfg.SocketPath), Dir: d.cfg.RuntimeDir, Owner: d.owner, Log: d.log})
	}
	if err != nil {
		return err
	}
	for _, name := range []string{inherit.Attach, inherit.Adopt} {
		if err := d.listen(name, func() (*net.UnixListener, error) { return e.dir.Listen(name, false) }); err != nil {
			return err
		}
	}
	if in == nil { // before there is a socket that a new client could have connected its own to
		e.last = e.lastClients()
	}
	if e.shared, err = e.openShared(v); err != nil {
		return err
	}
	e.passing = passfd.NewServer(passfd.Options{
		Network: d.networkInfo, Clients: d.server, Trust: e.trust(), QueueSize: d.cfg.QueueSize, Refused: d.refused, Log: d.log,
	})
	return nil
}

// openShared makes the server of the shared datagram socket.
func (e *extras) openShared(v *savedExtras) (_ *dgram.Server, err error) {
	d := e.d
	o := dgram.Options{
		Renew: e.dir.ListenDatagram, Forget: e.forgetShared, Trust: e.trust(), QueueSize: d.cfg.QueueSize, Refused: d.refused, Log: d.log,
		Serve: func(l link.Link, path string, uid uint32) error {
			// On Linux the kernel has said that the datagrams come from that user or from root; elsewhere nothing tells who sent one.
			peer := hostfs.Peer{Known: true, UID: uid, Unverified: runtime.GOOS != "linux"}
			_, err := d.server.Serve(l, perclient.Client{Transport: status.Unixgram, Path: path, Peer: peer})
			return err
		},
	}
	if d.given.Has(inherit.Dgram) {
		o.Renew = nil // the service manager keeps the socket that has the path
	} else if d.manager.Stores() {
		o.Store = func(id, fd int) { d.manager.Store(sharedName+strconv.Itoa(id), fd) }
	}
	if v != nil {
		return dgram.Attach(o, v.Dgram)
	}
	if o.Conn = d.given.Datagram; o.Conn == nil {
		if o.Conn, err = e.dir.ListenDatagram(); err != nil {
			return nil, err
		}
		if v := e.storedShared(); len(v.Sockets) > 0 {
			return dgram.Attach(o, v)
		}
	}
	s, err := dgram.New(o)
	if err != nil {
		_ = o.Conn.Close()
	}
	return s, err
}

// sharedName begins the names that the shared datagram sockets are stored by; the number of each follows.
const sharedName = inherit.ClientName + "dgram-"

// storedShared are the shared sockets of a process that was killed, which clients may be connected to.
func (e *extras) storedShared() dgram.State {
	fds := map[int]int{}
	for name, list := range e.d.given.Stored {
		if id, err := strconv.Atoi(strings.TrimPrefix(name, sharedName)); err == nil {
			fds[id] = list[0]
		}
	}
	return dgram.Stored(fds)
}

func (e *extras) forgetShared(id int) { e.d.manager.Forget(sharedName + strconv.Itoa(id)) }

// trust is whose sockets are served.
func (e *extras) trust() dgram.Trust {
	return dgram.Trust{
		AllowUIDs: e.d.cfg.AllowUIDs,
		Own:       slices.Concat(e.dir.Paths(), e.d.given.Paths, []string{absolute(e.d.cfg.SocketPath)}),
	}
}

// run serves until detach or close, datagrams from when held is closed, and returns at once. It may be called on nil.
func (e *extras) run(held <-chan struct{}) {
	if e == nil {
		return
	}
	e.passing.Attach()
	e.running.Go(func() {
		<-held
		e.shared.Run()
	})
	last := e.last
	e.last = nil
	e.running.Go(func() { e.invite(last) })
}

// detach leaves datagrams in the shared socket, and has no client come by a passed descriptor. It may be called on nil.
func (e *extras) detach() {
	if e == nil {
		return
	}
	e.passing.Detach()
	e.running.Wait() // for run, which could undo what follows
	e.shared.Halt()
}

// lastClients are the paths of the sockets that clients have left or kept beside the daemon's.
func (e *extras) lastClients() (paths []string) {
	dir := filepath.Join(e.dir.Path, "dgram")
	there, err := os.ReadDir(dir)
	if err != nil {
		e.d.log.Debug("datagram clients of the last process are not looked for", "error", err)
	}
	for _, f := range there {
		if f.Type() == fs.ModeSocket && f.Name() != "sock" {
			paths = append(paths, filepath.Join(dir, f.Name()))
		}
	}
	return paths
}

// invite serves the clients of the last process: those that are not connected to it, as QEMU's, do not notice a restart, and a guest that
// has nothing to say would not be reached until it speaks. One that has connected its socket to the last process's has to be started again.
func (e *extras) invite(paths []string) {
	for _, path := range paths {
		err := e.shared.Invite(path)
		switch {
		case err == nil:
		case errors.Is(err, unix.EPERM) && !e.d.given.Has(inherit.Dgram):
			e.d.log.Warn("a datagram client of the last process has no network", "path", path, "error", err)
		default:
			e.d.log.Debug("a datagram client of the last process is not served", "path", path, "error", err)
		}
	}
}

// hide takes the sockets away from clients that do not have them yet. It may be called on nil.
func (e *extras) hide() {
	if e == nil {
		return
	}
	if e.dir != nil {
		e.dir.Remove()
	}
	if e.passing != nil {
		e.passing.Stop()
	}
}

// close ends what is left until ctx is done. Its clients end with their sessions. It may be called on nil.
func (e *extras) close(ctx context.Context) {
	if e == nil {
		return
	}
	e.hide()
	if e.shared != nil {
		for _, s := range e.shared.State().Sockets {
			e.forgetShared(s.ID)
		}
		_ = e.shared.Close()
	}
	e.running.Wait()
	if e.passing != nil {
		e.passing.Wait(ctx)
	}
}
