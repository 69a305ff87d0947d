// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
	"github.com/socket-vmnet2/socket_vmnet2/internal/link"
	"github.com/socket-vmnet2/socket_vmnet2/internal/passing"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient"
	"github.com/socket-vmnet2/socket_vmnet2/internal/rundir"
	"github.com/socket-vmnet2/socket_vmnet2/internal/state"
	"github.com/socket-vmnet2/socket_vmnet2/internal/unixgram"
	"github.com/socket-vmnet2/socket_vmnet2/internal/vnet"
)

// extras are the sockets beside SOCKET: for datagram clients, and to pass descriptors in either direction. The daemon does
// its work without them.
type extras struct {
	dir     *rundir.Dir
	log     *slog.Logger
	given   *inherit.Sockets
	attach  *net.UnixListener
	adopt   *net.UnixListener
	passing *passing.Server
	shared  *unixgram.Server
	known   *known
	running sync.WaitGroup
}

// openExtras makes those that were not given; nil when they are not to be had, which the log tells. That is an error only if one
// of them was given.
func openExtras(cfg *compat.Config, owner compat.Owner, network vnet.Network, kept *state.File, given *inherit.Sockets, clients *perclient.Server, log *slog.Logger) (*extras, error) {
	dir, err := rundir.Open(rundir.Options{Socket: absolute(cfg.SocketPath), Dir: cfg.RuntimeDir, Owner: owner, Log: log})
	needed := given.Any(inherit.Attach, inherit.Adopt, inherit.Dgram, inherit.Control)
	switch {
	case err != nil && needed:
		return nil, fmt.Errorf("sockets beside the socket were given and cannot be served: %w", err)
	case errors.Is(err, rundir.ErrNone):
		level := slog.LevelInfo
		if cfg.RuntimeDir == compat.RuntimeDirNone { // that is what was asked for
			level = slog.LevelDebug
		}
		log.Log(context.Background(), level, "no sockets for datagram clients and passed descriptors", "reason", err)
		return nil, nil
	case err != nil:
		log.Warn("datagram clients and passed descriptors are not served, stream clients are", "error", err)
		return nil, nil
	}
	e := &extras{dir: dir, log: log, given: given, known: newKnown(kept)}
	if err := e.open(cfg, network, clients); err != nil {
		e.close(context.Background())
		if needed {
			return nil, err
		}
		log.Warn("datagram clients and passed descriptors are not served, stream clients are", "error", err)
		return nil, nil
	}
	return e, nil
}

// listen is the listener of this name, which was given or is made.
func (e *extras) listen(given *inherit.Sockets, name string) (*net.UnixListener, error) {
	if ln := given.Listener(name); ln != nil {
		return ln, nil
	}
	return e.dir.Listen(name)
}

// listenDatagram is the shared datagram socket, which was given or is made.
func (e *extras) listenDatagram() (*net.UnixConn, error) {
	if c := e.given.Datagram(); c != nil {
		return c, nil
	}
	return e.dir.ListenDatagram()
}

// open binds the sockets. What it has opened is closed by close, also after an error.
func (e *extras) open(cfg *compat.Config, network vnet.Network, clients *perclient.Server) (err error) {
	if e.attach, err = e.listen(e.given, inherit.Attach); err != nil {
		return err
	}
	if e.adopt, err = e.listen(e.given, inherit.Adopt); err != nil {
		return err
	}
	conn, err := e.listenDatagram()
	if err != nil {
		return err
	}
	trust := unixgram.Trust{
		AllowUIDs:   cfg.AllowUIDs,
		Own:         slices.Concat(e.dir.Paths(), e.given.Paths(), []string{absolute(cfg.SocketPath)}),
		ReplySocket: runtime.GOOS == "darwin",
	}
	e.shared, err = unixgram.New(unixgram.Options{
		Conn: conn, Trust: trust, QueueSize: cfg.QueueSize, Log: e.log,
		Serve: func(l link.Link, path string, uid uint32) error {
			x, err := clients.Serve(l, perclient.Client{
				Peer: datagramPeer(uid), MAC: e.known.mac(path), Remembered: true, Log: datagramLog(path, uid),
				Ended: func() { e.known.remove(path) },
			})
			if err == nil {
				e.known.add(path, uid, x)
			}
			return err
		},
	})
	if err != nil {
		_ = conn.Close()
		return err
	}
	e.passing = passing.NewServer(passing.Options{
		Network: network.Info, Clients: clients, Trust: trust, QueueSize: cfg.QueueSize, Log: e.log,
	})
	return nil
}

// run serves until ctx is done and returns at once. It may be called on nil.
func (e *extras) run(ctx context.Context) {
	if e == nil {
		return
	}
	e.running.Go(e.shared.Run)
	e.running.Go(func() { e.known.recall(e.invite) })
	e.running.Go(func() { acceptOn(e.given, inherit.Attach)(ctx, e.attach, e.passing.Attach, e.log) })
	e.running.Go(func() { acceptOn(e.given, inherit.Adopt)(ctx, e.adopt, e.passing.Adopt, e.log) })
}

// invite serves a client of the last process.
func (e *extras) invite(path string, uid uint32) {
	if err := e.shared.Invite(path, uid); err != nil {
		e.log.Debug("a datagram client of the last process is not served", "path", path, "error", err)
	}
}

// hide takes the sockets away from clients that do not have them yet. It may be called on nil.
func (e *extras) hide() {
	if e == nil {
		return
	}
	e.known.freeze()
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
	for _, ln := range []*net.UnixListener{e.attach, e.adopt} {
		if ln != nil {
			_ = ln.Close()
		}
	}
	if e.passing != nil {
		e.passing.Wait(ctx)
	}
}
