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
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/control"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/handover"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/daemon/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/peercred"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/dgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd"
	"github.com/socket-vmnet2/socket_vmnet2/internal/status"
)

// extras are the sockets beside SOCKET: for datagram clients, and to pass descriptors in either direction. The daemon does
// its work without them.
type extras struct {
	d        *daemon
	dir      *rundir.Dir
	attachLn *net.UnixListener
	adoptLn  *net.UnixListener
	passing  *passfd.Server
	shared   *dgram.Server
	recall   bool // datagram clients of the last process may be there
	running  sync.WaitGroup
}

// openExtras makes those that were not given; nil when they are not to be had, which the log tells. That is an error only if one
// of them was given.
func (d *daemon) openExtras() (*extras, error) {
	dir, err := rundir.Open(rundir.Options{
		Socket: absolute(d.cfg.SocketPath), Dir: d.cfg.RuntimeDir, Owner: d.owner, Log: d.log,
	})
	needed := d.given.Any(inherit.Attach, inherit.Adopt, inherit.Dgram, inherit.Control)
	switch {
	case err != nil && needed:
		return nil, fmt.Errorf("sockets beside the socket were given and cannot be served: %w", err)
	case errors.Is(err, rundir.ErrNone):
		level := slog.LevelInfo
		if d.cfg.RuntimeDir == compat.RuntimeDirNone { // that is what was asked for
			level = slog.LevelDebug
		}
		d.log.Log(context.Background(), level, "no sockets for datagram clients and passed descriptors", "reason", err)
		return nil, nil
	case err != nil:
		d.log.Warn("datagram clients and passed descriptors are not served, stream clients are", "error", err)
		return nil, nil
	}
	e := &extras{d: d, dir: dir, recall: true}
	if err := e.open(); err != nil {
		e.close(context.Background())
		if needed {
			return nil, err
		}
		d.log.Warn("datagram clients and passed descriptors are not served, stream clients are", "error", err)
		return nil, nil
	}
	return e, nil
}

// listen is the listener of this name, which was given or is made.
func (e *extras) listen(name string) (*net.UnixListener, error) {
	if ln := e.d.given.Listener(name); ln != nil {
		return ln, nil
	}
	return e.dir.Listen(name, false)
}

// listenRoot makes the control socket that only root and the daemon's user can connect to; nil when it is not to be had, which the
// log tells.
func (e *extras) listenRoot() *net.UnixListener {
	ln, err := e.dir.Listen(inherit.Control+control.RootSuffix, true)
	if err != nil {
		e.d.log.Warn("root and the daemon's user share the control socket with its group", "error", err)
		return nil
	}
	return ln
}

// open binds the sockets. What it has opened is closed by close, also after an error.
func (e *extras) open() (err error) {
	if e.attachLn, err = e.listen(inherit.Attach); err != nil {
		return err
	}
	if e.adoptLn, err = e.listen(inherit.Adopt); err != nil {
		return err
	}
	o := e.sharedOptions()
	if o.Conn = e.d.given.Datagram(); o.Conn == nil {
		if o.Conn, err = e.dir.ListenDatagram(); err != nil {
			return err
		}
	}
	if e.shared, err = dgram.New(o); err != nil {
		_ = o.Conn.Close()
		return err
	}
	e.passing = passfd.NewServer(e.passingOptions())
	return nil
}

// trust is whose sockets are served.
func (e *extras) trust() dgram.Trust {
	return dgram.Trust{
		AllowUIDs:   e.d.cfg.AllowUIDs,
		Own:         slices.Concat(e.dir.Paths(), e.d.given.Paths(), []string{absolute(e.d.cfg.SocketPath)}),
		ReplySocket: runtime.GOOS == "darwin",
	}
}

// sharedOptions are those of the server of the shared datagram socket, without the socket.
func (e *extras) sharedOptions() dgram.Options {
	renew := e.dir.ListenDatagram
	if e.d.given.Has(inherit.Dgram) {
		renew = nil // the service manager keeps the socket that has the path
	}
	return dgram.Options{
		Renew: renew, Trust: e.trust(), QueueSize: e.d.cfg.QueueSize, Log: e.d.log,
		Serve: func(l link.Link, path string, uid uint32) error {
			// On Linux the kernel has said that the datagrams come from that user or from root; elsewhere nothing tells who sent one.
			peer := peercred.Peer{Known: true, UID: uid, Unverified: runtime.GOOS != "linux"}
			_, err := e.d.server.Serve(l, perclient.Client{Transport: status.Unixgram, Path: path, Peer: peer})
			return err
		},
	}
}

func (e *extras) passingOptions() passfd.Options {
	return passfd.Options{
		Network: e.d.networkInfo, Clients: e.d.server, Trust: e.trust(), QueueSize: e.d.cfg.QueueSize, Log: e.d.log,
	}
}

// run serves until detach or close, datagrams from when held is closed, and returns at once. It may be called on nil.
func (e *extras) run(held <-chan struct{}) {
	if e == nil {
		return
	}
	e.running.Go(func() {
		<-held
		e.shared.Run()
	})
	if e.recall {
		e.recall = false
		e.running.Go(e.invite)
	}
}

// detach leaves datagrams in the shared socket, and has no client come by a passed descriptor. It may be called on nil, like attach
// and save.
func (e *extras) detach() []passfd.Unread {
	if e == nil {
		return nil
	}
	unread := e.passing.Detach()
	e.running.Wait() // for run, which could undo what follows
	e.shared.Halt()
	return unread
}

// attach goes on with the connections that detach has left.
func (e *extras) attach(unread []passfd.Unread) {
	if e != nil {
		e.passing.Attach(unread)
	}
}

// save notes what the new program needs of the extras and of c, whose socket is in their directory. It comes after detach.
func (e *extras) save(o *handover.Out, c *controller) (_ *savedExtras, err error) {
	if e == nil {
		return nil, nil
	}
	v := &savedExtras{Dgram: e.shared.State()}
	list(o, v.Dgram.Descriptors())
	if v.Dir, err = e.dir.Save(o); err != nil {
		return nil, err
	}
	type listener struct {
		ln *net.UnixListener
		to *int
	}
	listeners := []listener{{e.attachLn, &v.Attach}, {e.adoptLn, &v.Adopt}}
	if c != nil {
		listeners = append(listeners, listener{c.ln, &v.Control})
		if c.root != nil {
			listeners = append(listeners, listener{c.root, &v.Root})
		}
	}
	for _, l := range listeners {
		if *l.to, err = o.Conn(l.ln); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// accept has loop accept at the listeners. It may be called on nil.
func (e *extras) accept(loop func(name string, ln *net.UnixListener, handle func(*net.UnixConn))) {
	if e != nil {
		for name, ln := range map[string]*net.UnixListener{inherit.Attach: e.attachLn, inherit.Adopt: e.adoptLn} {
			loop(name, ln, func(c *net.UnixConn) { e.passing.Connected(name, c) })
		}
	}
}

// invite serves the clients of the last process whose sockets are beside the daemon's: those that are not connected to it, as QEMU's,
// do not notice a restart, and a guest that has nothing to say would not be reached until it speaks.
func (e *extras) invite() {
	dir := filepath.Join(e.dir.Path, "dgram")
	there, err := os.ReadDir(dir)
	if err != nil {
		e.d.log.Debug("datagram clients of the last process are not looked for", "error", err)
		return
	}
	for _, f := range there {
		path := filepath.Join(dir, f.Name())
		if f.Type() != fs.ModeSocket || path == filepath.Join(dir, "sock") {
			continue
		}
		if err := e.shared.Invite(path); err != nil {
			e.d.log.Debug("a datagram client of the last process is not served", "path", path, "error", err)
		}
	}
}

// hide takes the sockets away from clients that do not have them yet. It may be called on nil.
func (e *extras) hide() {
	if e == nil {
		return
	}
	e.dir.Remove()
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
		_ = e.shared.Close()
	}
	e.running.Wait()
	for _, ln := range []*net.UnixListener{e.attachLn, e.adoptLn} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	if e.passing != nil {
		e.passing.Wait(ctx)
	}
}
